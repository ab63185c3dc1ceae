// SPDX-License-Identifier: Apache-2.0
#include "bench/replay.h"

#include <algorithm>

namespace stof::cuda {

std::vector<double> replay_us(const Gpu& gpu, StreamHandle stream, const Replays& replays,
                              const std::function<void()>& launch) {
  const Event begin(gpu), end(gpu);
  std::vector<double> times;
  for (int i = -replays.warm; i < replays.count; ++i) {
    begin.record(stream);
    launch();
    end.record(stream);
    const auto us = static_cast<double>(end.microseconds_since(begin));
    if (i >= 0) times.push_back(us);
  }
  std::sort(times.begin(), times.end());
  return times;
}

std::vector<double> replay_us(const Gpu& gpu, const Replays& replays, const std::function<void(StreamHandle)>& record) {
  const CapturedGraph graph(gpu, record);
  const Stream stream(gpu);
  return replay_us(gpu, stream.handle(), replays, [&] { graph.launch(stream.handle()); });
}

}  // namespace stof::cuda
