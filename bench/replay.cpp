// SPDX-License-Identifier: Apache-2.0
#include "bench/replay.h"

#include <algorithm>

#include "src/base/median.h"

namespace stof::cuda {

std::vector<double> replay_us(const Gpu& gpu, StreamHandle stream, const Replays& replays,
                              const std::function<void()>& launch) {
  const Event begin(gpu), end(gpu);
  std::vector<double> times;
  for (int i = -replays.warm; i < replays.count; ++i) {
    if (replays.in_front) replays.in_front();
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

double launch_us(const Gpu& gpu, const Replays& replays, const Reuse& reuse, std::size_t buffers,
                 const std::function<void(StreamHandle, Turn)>& launch) {
  return median_of(replay_us(gpu, replays,
                             [&](StreamHandle stream) {
                               for (int i = 0; i < kLaunches; ++i)
                                 launch(stream, {.buffers = reuse.rotates ? static_cast<std::size_t>(i) % buffers : 0,
                                                 .back = reuse.to_and_fro && i % 2 == 1});
                             })) /
         kLaunches;
}

}  // namespace stof::cuda
