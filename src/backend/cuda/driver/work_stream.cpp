// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/driver/work_stream.h"

#include <cstring>

#include "src/backend/cuda/driver/device.h"
#include "src/backend/cuda/driver/device_memory.h"
#include "src/backend/cuda/driver/stream.h"

namespace stof::cuda {
namespace {

DevicePointer address_of(const void* memory) { return reinterpret_cast<DevicePointer>(memory); }

class Recording final : public RecordedWork {
 public:
  Recording(const Gpu& gpu, StreamHandle stream, const std::function<void()>& work)
      : stream_(stream), graph_(gpu, stream, work) {}
  void launch() const override { graph_.launch(stream_); }

 private:
  StreamHandle stream_;
  CapturedGraph graph_;
};

class WorkStream final : public DeviceStream {
 public:
  explicit WorkStream(const Gpu& gpu) : gpu_(gpu), stream_(gpu) {}

  void* handle() const override { return stream_.handle(); }
  std::shared_ptr<void> device_memory(std::size_t bytes) override {
    const auto memory = std::make_shared<DeviceMemory>(gpu_, bytes);
    memory->fill(0);
    return {memory, memory->as<void>()};
  }
  std::shared_ptr<void> host_memory(std::size_t bytes) override {
    const auto memory = std::make_shared<PinnedMemory>(gpu_, bytes);
    if (bytes > 0) std::memset(memory->data(), 0, bytes);
    return {memory, memory->data()};
  }
  void copy_in(void* to, const void* from, std::size_t bytes) override {
    const CurrentGpu current(gpu_);
    if (bytes > 0) driver().copy_in(address_of(to), from, bytes, stream_.handle());
  }
  void copy_out(void* to, const void* from, std::size_t bytes) override {
    const CurrentGpu current(gpu_);
    if (bytes > 0) driver().copy_out(to, address_of(from), bytes, stream_.handle());
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    const CurrentGpu current(gpu_);
    if (bytes > 0) driver().copy(address_of(to), address_of(from), bytes, stream_.handle());
  }
  std::unique_ptr<RecordedWork> record(const std::function<void()>& work) override {
    return std::make_unique<Recording>(gpu_, stream_.handle(), work);
  }
  void synchronize() override { stream_.synchronize(); }
  double time(const RecordedWork& work, int launches) override {
    const Event begin(gpu_), end(gpu_);
    begin.record(stream_.handle());
    for (int launch = 0; launch < launches; ++launch) work.launch();
    end.record(stream_.handle());
    return static_cast<double>(end.microseconds_since(begin));
  }

 private:
  const Gpu& gpu_;
  Stream stream_;
};

}  // namespace

std::unique_ptr<DeviceStream> open_stream(const Device& device) { return std::make_unique<WorkStream>(gpu_of(device)); }

}  // namespace stof::cuda
