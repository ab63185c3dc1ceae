// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cpu/memory.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "src/base/error.h"

namespace stof::cpu {

void ScratchPool::Free::operator()(void* memory) const noexcept { std::free(memory); }

ScratchPool::Lease::Lease(ScratchPool& pool, int count, std::pmr::memory_resource* memory)
    : pool_(pool), pieces_(static_cast<std::size_t>(count), memory) {
  constexpr std::size_t kAlignment = 64;
  const std::size_t bytes = (std::max<std::size_t>(pool.bytes_, 1) + kAlignment - 1) / kAlignment * kAlignment;
  const std::lock_guard lock(pool.mutex_);
  pool.free_.reserve(pool.pieces_made_ + pieces_.size());
  for (Memory& piece : pieces_) {
    if (!pool.free_.empty()) {
      piece = std::move(pool.free_.back());
      pool.free_.pop_back();
      continue;
    }
    piece.reset(std::aligned_alloc(kAlignment, bytes));
    if (!piece) fail(ErrorKind::device, "out of memory: {} bytes of scratch for a thread", bytes);
    ++pool.pieces_made_;
  }
}

ScratchPool::Lease::~Lease() {
  const std::lock_guard lock(pool_.mutex_);
  for (Memory& piece : pieces_) pool_.free_.push_back(std::move(piece));
}

}  // namespace stof::cpu
