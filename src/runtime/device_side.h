// SPDX-License-Identifier: Apache-2.0
// Memory and copies where a program runs: on a device that works beside the host, or on the host itself.
#pragma once
#include <memory>
#include <span>

#include "src/backend/contract.h"
#include "src/backend/device_stream.h"
#include "src/runtime/growing_memory.h"
#include "stof/tensor.h"

namespace stof {

class DeviceSide {
 public:
  explicit DeviceSide(const Device& device);
  ~DeviceSide();  // waits for the device
  DeviceSide(const DeviceSide&) = delete;
  DeviceSide& operator=(const DeviceSide&) = delete;

  WorkQueue queue() const;
  std::shared_ptr<void> memory(std::int64_t bytes);        // zeroed
  std::shared_ptr<void> unset_memory(std::int64_t bytes);  // to be written before it is read
  std::shared_ptr<void> host_memory(std::int64_t bytes);   // zeroed, for bring_back(); of a device beside the host
  // Whether work is done beside the host, and can be recorded.
  bool records() const { return stream_ != nullptr; }
  std::unique_ptr<RecordedWork> record(const std::function<void()>& work) { return stream_->record(work); }
  // Where the device reads these numbers once bring() is done, until the next ones are put there.
  std::span<const std::int32_t> put(std::span<const std::int32_t> numbers);
  std::int64_t number_bytes() const { return numbers_.bytes(); }  // that there is room for, where it is
  void bring(std::span<const std::int32_t> put);                  // in the order of the queue
  void copy(void* to, const void* from, std::int64_t bytes);      // within the device; no overlap
  // In the order of the queue, to host_memory(): there once wait() is done.
  void bring_back(void* to, const void* from, std::int64_t bytes);
  void wait();  // until the work so far is done
  // f32, of what the work so far has made of values of this dtype.
  Tensor fetch(const void* values, DType dtype, const Shape& shape);

 private:
  const Device& device_;
  std::unique_ptr<DeviceStream> stream_;  // null: the host
  std::shared_ptr<void> workspace_;
  GrowingMemory numbers_, host_numbers_;  // on the host one of them is both
};

}  // namespace stof
