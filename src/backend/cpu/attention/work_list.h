// SPDX-License-Identifier: Apache-2.0
// The pieces of one attention call, spread over threads. A piece writes its own rows and nothing else and is computed
// by one thread, so results do not depend on the number of threads or on who takes what.
#pragma once
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "kernels/cpu/attention_task.h"
#include "src/backend/contract.h"
#include "src/backend/cpu/memory.h"

namespace stof::cpu {

struct Piece {
  const AttentionItem* item = nullptr;
  std::int64_t head = 0;
  std::int64_t row = 0, rows = 0;             // of the item
  std::int64_t begin = 0, end = 0;            // into what the kernel made of the layout
  std::int64_t tree_begin = 0, tree_end = 0;  // and into what it made of draft trees for this call
  int lane = 0;                               // of `row` in its row-block
  double cost_ns = 0;
};

AttentionNumbers numbers_of(const AttentionCall& call, const DeviceCaps& caps);
AttentionHead head_of(const AttentionCall& call, const Piece& piece);

// How many threads the pieces are worth: one for every 20 us, as waking a thread costs a few.
int threads_for(std::span<const Piece> pieces, int cores);

int thread_index();  // in the current parallel region

// The costliest first. The last one of each thread is cut into parts of `part_rows` lanes (0: none), so that no thread
// waits for a whole one at the end.
void line_up(std::pmr::vector<Piece>& pieces, int threads, int part_rows);

inline const Piece* after(const std::pmr::vector<Piece>& pieces, std::size_t index, int threads) {
  index += static_cast<std::size_t>(threads);
  return index < pieces.size() ? &pieces[index] : nullptr;
}

struct Spread {
  int cores = 1;
  int part_rows = 0;
};

// Calls compute(piece, following, scratch) for each; `following` is the piece that this thread takes next if all take
// equally long, or null.
template <class Compute>
void spread(std::pmr::vector<Piece>& pieces, const Spread& over, ScratchPool& pool, const Compute& compute) {
  const int threads = threads_for(pieces, over.cores);
  const ScratchPool::Lease scratch(pool, threads, pieces.get_allocator().resource());
  if (threads == 1) {
    for (std::size_t i = 0; i < pieces.size(); ++i) compute(pieces[i], after(pieces, i, 1), scratch.at(0));
    return;
  }
  line_up(pieces, threads, over.part_rows);
  const auto count = static_cast<std::int64_t>(pieces.size());
#pragma omp parallel num_threads(threads)
  {
    void* const mine = scratch.at(thread_index());
#pragma omp for schedule(dynamic)
    for (std::int64_t i = 0; i < count; ++i) {
      const auto index = static_cast<std::size_t>(i);
      compute(pieces[index], after(pieces, index, threads), mine);
    }
  }
}

}  // namespace stof::cpu
