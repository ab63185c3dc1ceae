// SPDX-License-Identifier: Apache-2.0
// Scratch memory of CPU kernels: one piece for each thread of a parallel region, kept for the next region.
#pragma once
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <vector>

namespace stof::cpu {

class ScratchPool {
  struct Free {
    void operator()(void* memory) const noexcept;
  };
  using Memory = std::unique_ptr<void, Free>;

 public:
  explicit ScratchPool(std::size_t bytes) : bytes_(bytes) {}

  // `count` pieces, 64-byte aligned, until the lease ends. Throws device when memory runs out.
  class Lease {
   public:
    Lease(ScratchPool& pool, int count, std::pmr::memory_resource* memory = std::pmr::get_default_resource());
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    void* at(int index) const { return pieces_[static_cast<std::size_t>(index)].get(); }

   private:
    ScratchPool& pool_;
    std::pmr::vector<Memory> pieces_;
  };

 private:
  std::size_t bytes_;
  std::mutex mutex_;
  std::size_t pieces_made_ = 0;
  std::vector<Memory> free_;  // has room for every piece made, so that returning one cannot fail
};

}  // namespace stof::cpu
