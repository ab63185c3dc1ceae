// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cpu/memory.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "src/base/error.h"
#include "src/base/large_pages.h"

namespace stof::cpu {

void ScratchPool::Free::operator()(void* memory) const noexcept { std::free(memory); }

ScratchPool::Lease::Lease(ScratchPool& pool, int count, std::pmr::memory_resource* memory)
    : pool_(pool), pieces_(static_cast<std::size_t>(count), memory) {
  // What is a good part of the second-level cache takes a large page, which spreads evenly over its sets.
  const std::size_t alignment = pool.bytes_ < kLargePage / 4 ? 64 : kLargePage;
  const std::size_t bytes = (std::max<std::size_t>(pool.bytes_, 1) + alignment - 1) / alignment * alignment;
  const std::lock_guard lock(pool.mutex_);
  pool.free_.reserve(pool.pieces_made_ + pieces_.size());
  for (Memory& piece : pieces_) {
    if (!pool.free_.empty()) {
      piece = std::move(pool.free_.back());
      pool.free_.pop_back();
      continue;
    }
    piece.reset(std::aligned_alloc(alignment, bytes));
    if (!piece) fail(ErrorKind::device, "out of memory: {} bytes of scratch for a thread", bytes);
    prefer_large_pages(piece.get(), bytes);
    ++pool.pieces_made_;
  }
}

ScratchPool::Lease::~Lease() {
  const std::lock_guard lock(pool_.mutex_);
  for (Memory& piece : pieces_) pool_.free_.push_back(std::move(piece));
}

}  // namespace stof::cpu
