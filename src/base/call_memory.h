// SPDX-License-Identifier: Apache-2.0
// Memory for the lists that a call makes, kept from call to call: one like an earlier one allocates nothing.
#pragma once
#include <cstddef>
#include <memory>
#include <memory_resource>

namespace stof {

// Gives out pieces of one block, and takes none back before the call ends.
class CallMemory : public std::pmr::memory_resource {
 public:
  // To be called when a call begins: the pieces of the last one are void, the block is as large as it wanted.
  void reset();

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void*, std::size_t, std::size_t) override {}
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  std::unique_ptr<std::byte[]> block_;
  std::size_t size_ = 0, used_ = 0;
  std::size_t wanted_ = 0;                        // of this call, what did not fit included
  std::pmr::monotonic_buffer_resource overflow_;  // what did not fit
};

}  // namespace stof
