// SPDX-License-Identifier: Apache-2.0
#include "src/base/call_memory.h"

#include <new>

namespace stof {

void* CallMemory::do_allocate(std::size_t bytes, std::size_t alignment) {
  wanted_ += bytes + alignment;
  void* place = block_.get() + used_;
  std::size_t left = size_ - used_;
  if (block_ == nullptr || std::align(alignment, bytes, place, left) == nullptr)
    return overflow_.allocate(bytes, alignment);
  used_ = size_ - left + bytes;
  return place;
}

void CallMemory::reset() {
  overflow_.release();
  if (wanted_ > size_) {
    block_.reset(new (std::nothrow) std::byte[wanted_]);  // without it the next call overflows, too
    size_ = block_ == nullptr ? 0 : wanted_;
  }
  used_ = wanted_ = 0;
}

}  // namespace stof
