// SPDX-License-Identifier: Apache-2.0
// Memory that grows with the calls it serves, and is never held twice meanwhile.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace stof {

// What was recorded with its address is void once it has grown, unless whoever recorded it holds what there was.
class GrowingMemory {
 public:
  // True when it moved.
  bool reserve(std::int64_t bytes, const std::function<std::shared_ptr<void>(std::size_t)>& allocate) {
    if (bytes <= bytes_) return false;
    memory_.reset();  // before the larger one is asked for
    bytes_ = 0;
    memory_ = allocate(static_cast<std::size_t>(bytes));
    bytes_ = bytes;
    return true;
  }
  std::byte* data() const { return static_cast<std::byte*>(memory_.get()); }
  std::int64_t bytes() const { return bytes_; }
  std::shared_ptr<const void> held() const { return memory_; }

 private:
  std::shared_ptr<void> memory_;
  std::int64_t bytes_ = 0;
};

}  // namespace stof
