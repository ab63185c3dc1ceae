// SPDX-License-Identifier: Apache-2.0
// Operations of a device on tensors of the host: operands are brought there, results back.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "src/backend/contract.h"
#include "src/backend/cuda/driver/api.h"

namespace stof {

// Names for parameters: a test on "cuda" skips where there is none.
#define STOF_SKIP_WITHOUT_DEVICE(device) \
  if ((device) == "cuda" && !cuda::missing_driver().empty()) GTEST_SKIP() << cuda::missing_driver()

class Operands {
 public:
  explicit Operands(const Device& device) : device_(device) {}

  // Where the device finds the tensor's values; nothing for a null pointer.
  void* in(const Tensor* tensor) { return tensor == nullptr ? nullptr : in(*tensor); }
  void* in(const Tensor& tensor) { return bring(tensor.data(), tensor.bytes()); }
  float* floats(const Tensor& tensor) { return static_cast<float*>(in(tensor)); }
  std::span<const std::int32_t> in(std::span<const std::int32_t> values) {
    auto* there = bring(const_cast<std::int32_t*>(values.data()), values.size_bytes());
    return {static_cast<const std::int32_t*>(there), values.size()};
  }
  // The same, brought back by finish().
  void* result(const Tensor& tensor) {
    void* const there = in(tensor);
    results_.emplace_back(&tensor, there);
    return there;
  }
  void finish() {
    if (device_.backend->memory == nullptr) return;
    for (const auto& [tensor, there] : results_)
      device_.backend->memory->copy_out(device_, {tensor->as<std::byte>(), tensor->bytes()}, there);
  }

  WorkQueue queue() const { return {.device = &device_}; }

 private:
  void* bring(void* data, std::size_t bytes) {
    if (device_.backend->memory == nullptr) return data;
    held_.push_back(device_.backend->memory->copy_in(device_, {static_cast<const std::byte*>(data), bytes}, 0));
    return held_.back().get();
  }

  const Device& device_;
  std::vector<std::shared_ptr<void>> held_;
  std::vector<std::pair<const Tensor*, void*>> results_;
};

}  // namespace stof
