// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/driver/device_memory.h"

#include "src/backend/cuda/driver/staged_copy.h"
#include "src/base/error.h"

namespace stof::cuda {

DeviceMemory::DeviceMemory(const Gpu& gpu, std::size_t bytes) : gpu_(&gpu), bytes_(bytes) {
  if (bytes == 0) return;
  const CurrentGpu current(gpu);
  const Status status = driver().allocate.attempt(&address_, bytes);
  if (status == kSuccess) return;
  if (status != kOutOfMemory) fail_call(driver().allocate.name(), status);
  std::size_t left = 0, total = 0;
  driver().memory_left(&left, &total);
  fail(ErrorKind::device, "out of memory on cuda:{}: {} bytes wanted, {} of {} left", gpu.ordinal, bytes, left, total);
}

DeviceMemory::~DeviceMemory() {
  if (address_ == 0) return;
  // A failure here is that of an earlier kernel, which the next checked call reports.
  ContextHandle popped = nullptr;
  if (driver().push_context.attempt(gpu_->context) != kSuccess) return;
  {
    const OutsideCapture outside;
    driver().release.attempt(address_);
  }
  driver().pop_context.attempt(&popped);
}

PinnedMemory::PinnedMemory(const Gpu& gpu, std::size_t bytes) : gpu_(&gpu) {
  if (bytes == 0) return;
  const CurrentGpu current(gpu);
  driver().allocate_pinned(&data_, bytes);
}

PinnedMemory::~PinnedMemory() {
  ContextHandle popped = nullptr;
  if (data_ == nullptr || driver().push_context.attempt(gpu_->context) != kSuccess) return;
  driver().release_pinned.attempt(data_);
  driver().pop_context.attempt(&popped);
}

void DeviceMemory::fill(unsigned char value) const {
  if (bytes_ == 0) return;
  const CurrentGpu current(*gpu_);
  driver().fill(address_, value, bytes_, nullptr);
  driver().synchronize_stream(nullptr);
}

void copy_in(const Gpu& gpu, DevicePointer to, std::span<const std::byte> from) {
  if (from.empty()) return;
  if (from.size() >= StagedCopy::kLeastBytes)
    if (StagedCopy* const staged = StagedCopy::of(gpu)) return staged->copy_in(to, from);
  const CurrentGpu current(gpu);
  driver().copy_in(to, from.data(), from.size(), nullptr);
  driver().synchronize_stream(nullptr);
}

void copy_out(const Gpu& gpu, std::span<std::byte> to, DevicePointer from) {
  if (to.empty()) return;
  const CurrentGpu current(gpu);
  driver().copy_out(to.data(), from, to.size(), nullptr);
  driver().synchronize_stream(nullptr);
}

}  // namespace stof::cuda
