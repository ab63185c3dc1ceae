// SPDX-License-Identifier: Apache-2.0
#include "cli/attention_times.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "src/attention/host_tensors.h"
#include "src/backend/contract.h"
#include "src/backend/cuda/driver/device.h"
#include "src/backend/cuda/driver/stream.h"
#include "src/base/error.h"

namespace stof::cli {
namespace {

constexpr int kLaunches = 20, kReplays = 21;

class Output {
 public:
  explicit Output(const Tensor& out) : out_(&out), bytes_(out.bytes()) {
    std::memcpy(bytes_.data(), out.data(), bytes_.size());
  }
  void check_same() const {
    if (std::memcmp(bytes_.data(), out_->data(), bytes_.size()) != 0)
      fail(ErrorKind::internal, "bug in STOF: the same attention gave other results when it was timed");
  }

 private:
  const Tensor* out_;
  std::vector<std::byte> bytes_;
};

AttentionTimes time_on_host(const Attention& attention, const AttentionProblemInputs& inputs, double seconds,
                            const std::function<AttentionError()>& check) {
  const AttentionArguments arguments = inputs.arguments();
  attention.run(arguments);
  AttentionTimes times{.hot = {}, .cold = {}, .wall = {}, .error = check()};
  const Output checked(inputs.out);
  times.hot = times.wall = time_calls([&] { attention.run(arguments); }, seconds);
  checked.check_same();
  return times;
}

// One problem's tensors on a GPU, as many times as it takes to fill what its cache holds twice.
class DeviceSets {
 public:
  DeviceSets(const Attention& attention, const AttentionProblemInputs& inputs, const Device& device)
      : gpu_(cuda::gpu_of(device)), attention_(&attention), stream_(gpu_) {
    const std::size_t each = inputs.q.bytes() + inputs.k.bytes() + inputs.v.bytes() + inputs.out.bytes();
    const std::size_t count = 2 * static_cast<std::size_t>(gpu_.l2_bytes) / std::max<std::size_t>(1, each) + 2;
    for (std::size_t i = 0; i < count; ++i)
      sets_.push_back(std::make_unique<DeviceArguments>(inputs.arguments(), device));
  }

  // With the plan's own workspace: one of the caller's would be cleared before each launch.
  void launch(std::size_t set) const {
    AttentionArguments arguments = sets_[set % sets_.size()]->arguments();
    arguments.stream = stream_.handle();
    attention_->run(arguments);
  }
  void run_once() const {
    launch(0);
    stream_.synchronize();
  }
  void copy_back() const { sets_.front()->copy_back(); }

  // Per launch, after half a second of rest: short runs at the clock that a GPU has then.
  CallTimes replay(bool rotate) const {
    const int launches = rotate ? std::max(kLaunches, static_cast<int>(sets_.size())) : kLaunches;
    const cuda::CapturedGraph graph(gpu_, stream_.handle(), [&] {
      for (int i = 0; i < launches; ++i) launch(rotate ? static_cast<std::size_t>(i) : 0);
    });
    const cuda::Event begin(gpu_), end(gpu_);
    stream_.synchronize();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    for (int i = 0; i < 3; ++i) graph.launch(stream_.handle());
    std::vector<double> times;
    for (int i = 0; i < kReplays; ++i) {
      begin.record(stream_.handle());
      graph.launch(stream_.handle());
      end.record(stream_.handle());
      times.push_back(static_cast<double>(end.microseconds_since(begin)) / launches);
    }
    return times_of(times);
  }

 private:
  const cuda::Gpu& gpu_;
  const Attention* attention_;
  cuda::Stream stream_;
  std::vector<std::unique_ptr<DeviceArguments>> sets_;
};

AttentionTimes time_on_gpu(const Attention& attention, const AttentionProblemInputs& inputs, const Device& device,
                           const std::function<AttentionError()>& check) {
  const DeviceSets sets(attention, inputs, device);
  sets.run_once();
  sets.copy_back();
  AttentionTimes times{.hot = {}, .cold = {}, .wall = {}, .error = check()};
  const Output checked(inputs.out);
  times.hot = sets.replay(false);
  times.cold = sets.replay(true);
  times.wall = time_calls([&] { sets.run_once(); }, 0.02);
  sets.copy_back();
  checked.check_same();
  return times;
}

}  // namespace

AttentionTimes time_attention(const Attention& attention, const AttentionProblemInputs& inputs, const Device& device,
                              double seconds, const std::function<AttentionError()>& check) {
  if (device.backend->memory == nullptr) return time_on_host(attention, inputs, seconds, check);
  return time_on_gpu(attention, inputs, device, check);
}

std::string attention_protocol(const Device& device) {
  if (device.backend->memory == nullptr)
    return "us on the wall, median of 5 to 200 calls after 2 that warm up; output checked against the definition in "
           "double before";
  return fmt::format(
      "us of the device per launch, median of {} replays of a graph of {} launches, after half a second of rest; hot: "
      "the same buffers, cold: buffers that exceed the L2 cache twice; output checked against the definition in double "
      "before",
      kReplays, kLaunches);
}

}  // namespace stof::cli
