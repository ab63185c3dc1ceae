// SPDX-License-Identifier: Apache-2.0
// What the mma kernel works through for a row block: tiles of 64 keys and which of their pairs are allowed, as it was
// arranged for the kernel, or as the mask was packed for another one.
#pragma once
#include "kernels/cuda/draft_trees.cuh"
#include "kernels/cuda/row_block.cuh"
#include "kernels/cuda/softmax.cuh"

namespace stof::cuda {

// Of one step, for a warp's slabs of 16 rows: a bit a score. Not used: the warp has nothing to do.
template <int kSlabs>
struct SlabWords {
  u32 words[kSlabs];
  bool used;
};

// The kernel's own arrangement: words in register order, tiles that are full for all rows last.
template <class Traits>
struct ArrangedSteps {
  static constexpr int kStepInts = 1 + Traits::kParts;
  const int* first;  // step
  const unsigned* words;
  int count, listed;  // steps, and how many of them must be looked at

  // Row blocks in the order of StreamLoader: sections of slices go through the items side by side.
  static __device__ __forceinline__ ArrangedSteps find(const MmaParams& p, int index, RowBlock& block) {
    auto [slice, entry] = place_in_sections(p.sections, index);
    if (p.window.parts) entry = item_in_window(p.call.shape, p.window, slice, Traits::kRows, entry);
    if (entry < 0) {
      block = RowBlock{};  // without rows
      return {nullptr, nullptr, 0, 0};
    }
    const StreamItem item = p.layout.items[entry];
    block = row_block_of<true>(p.call.shape, slice, item.row);
    block.head += item.head, block.split = item.split;
    // Full tiles may reach past the end of a shorter item, or among the keys of a tree.
    const bool all = block.keys < p.call.shape.keys || has_tree(p.trees, block.rows);
    return {p.layout.steps + static_cast<long long>(item.first_step) * kStepInts, p.layout.words, item.steps,
            all ? item.steps : item.steps - item.full_steps};
  }

  __device__ __forceinline__ int key_start(int step) const { return __ldg(first + step * kStepInts); }

  // slab: the warp's first one, of its part.
  __device__ __forceinline__ SlabWords<Traits::kSlabs> read(int step, int part, int slab, int lane) const {
    SlabWords<Traits::kSlabs> read;
    const int state = __ldg(first + step * kStepInts + 1 + part);
    read.used = state != TileState::kUnused;
#pragma unroll
    for (int i = 0; i < Traits::kSlabs; ++i) {
      read.words[i] = ~0u;
      if (state >= 0) read.words[i] = __ldg(words + static_cast<long long>(state) * 128 + 32 * (slab + i) + lane);
    }
    return read;
  }
};

// A packed mask as it is, 64 rows at a time; its row blocks may have more.
template <class Traits>
struct PackedSteps {
  static_assert(Traits::kParts == 1);
  const RowEntry* first;
  const u64* bitmaps;  // of the 64 rows
  int block_q, count, listed;

  // The last rows of all slices first: where the mask is causal they have the most keys.
  static __device__ __forceinline__ PackedSteps find(const MmaParams& p, int index, RowBlock& block) {
    const RowLayoutView& packed = p.blocks;
    const int slices = p.call.shape.slices, from_last = index / slices;
    const int parts = packed.block_q / 64, at = packed.row_blocks * parts - 1 - from_last;
    block = row_block_of<true>(p.call.shape, index - from_last * slices, 64 * at);
    const long long begin = packed.row_begin[at / parts];
    const int count = static_cast<int>(packed.row_begin[at / parts + 1] - begin);
    return {packed.entries + begin, packed.bitmaps + 64 * (at % parts), packed.block_q, count, count};
  }

  __device__ __forceinline__ int key_start(int step) const { return __ldg(&first[step].key_start); }

  __device__ __forceinline__ SlabWords<Traits::kSlabs> read(int step, int, int slab, int lane) const {
    SlabWords<Traits::kSlabs> read;
    const int bitmap = __ldg(&first[step].bitmap);
    u32 any = 0;
#pragma unroll
    for (int i = 0; i < Traits::kSlabs; ++i) {
      read.words[i] = ~0u;
      if (bitmap >= 0) {
        const u64* rows = bitmaps + static_cast<long long>(bitmap) * block_q + 16 * (slab + i) + lane / 4;
        read.words[i] = in_register_order(__ldg(rows), __ldg(rows + 8), lane);
      }
      any |= read.words[i];
    }
    read.used = __any_sync(~0u, any != 0);
    return read;
  }
};

}  // namespace stof::cuda
