// SPDX-License-Identifier: Apache-2.0
// Large copies from memory of the host that is not pinned, such as a checkpoint's. The driver brings them over by one
// thread; here several fill one half of pinned memory while the other is on its way.
#pragma once
#include <memory>
#include <mutex>
#include <span>

#include "src/backend/cuda/driver/device_memory.h"

namespace stof::cuda {

class StagedCopy {
 public:
  static constexpr std::size_t kLeastBytes = std::size_t{16} << 20;  // from which on it is worth it

  // Made at the first call, kept to the end of the process. Null where the host has no memory to pin.
  static StagedCopy* of(const Gpu& gpu);

  // Over when it returns. Thread-safe: one copy after the other.
  void copy_in(DevicePointer to, std::span<const std::byte> from);

 private:
  explicit StagedCopy(const Gpu& gpu);

  const Gpu& gpu_;
  PinnedMemory halves_;
  std::mutex mutex_;
};

}  // namespace stof::cuda
