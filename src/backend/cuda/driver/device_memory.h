// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU, owned; and copies that are over when they return.
#pragma once
#include <cstddef>
#include <span>
#include <utility>

#include "src/backend/cuda/driver/gpu.h"

namespace stof::cuda {

class DeviceMemory {
 public:
  DeviceMemory() = default;
  // Aligned to 256 bytes, not initialised. Throws device, with the size asked for and what is left, when it is not
  // there.
  DeviceMemory(const Gpu& gpu, std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept
      : gpu_(std::exchange(other.gpu_, nullptr)),
        address_(std::exchange(other.address_, 0)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(gpu_, other.gpu_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  DevicePointer address() const { return address_; }
  std::size_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(address_);
  }
  void fill(unsigned char value) const;

 private:
  const Gpu* gpu_ = nullptr;
  DevicePointer address_ = 0;
  std::size_t bytes_ = 0;
};

// Memory of the host that the GPU copies from and to while the host does other things.
class PinnedMemory {
 public:
  PinnedMemory(const Gpu& gpu, std::size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  void* data() const { return data_; }

 private:
  const Gpu* gpu_;
  void* data_ = nullptr;
};

void copy_in(const Gpu& gpu, DevicePointer to, std::span<const std::byte> from);
void copy_out(const Gpu& gpu, std::span<std::byte> to, DevicePointer from);

// The values, on the GPU; no values take no memory.
template <class T>
DeviceMemory to_device(const Gpu& gpu, std::span<const T> values) {
  DeviceMemory memory(gpu, values.size_bytes());
  copy_in(gpu, memory.address(), std::as_bytes(values));
  return memory;
}

}  // namespace stof::cuda
