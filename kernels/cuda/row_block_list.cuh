// SPDX-License-Identifier: Apache-2.0
// The row blocks of a launch that have rows, where most have none: found by all threads of a CTA at once in place of
// one after the other by whoever is to work on them.
#pragma once
#include "kernels/cuda/row_block.cuh"
#include "kernels/shared/row_block_list.h"

namespace stof::cuda {

constexpr int kListThreads = RowBlockListing::kThreads;
static_assert(RowBlockListing::kMostPlaces <= 32 * kListThreads, "a thread keeps a bit for each of its places");
static_assert(RowBlockListing::kMostItems <= 1 << 15 && RowBlockListing::kMostEntries <= 1 << 16);

// One place after the other, nearly in the order in which the stream kernel would come to them: sections of items, in
// each dearest entries first, and all items of the section side by side. Its sections are of slices: those of a part of
// an item's heads, as of one in sparse lists, become sections of whole items here (Sections::of_items).
struct ListWalk {
  const RowBlockListing& p;
  int items, section, width, within, entry;

  __device__ __forceinline__ ListWalk(const RowBlockListing& p, int items, int place) : p(p), items(items) {
    const int per_section = p.entry_count * p.section;
    section = min(place / per_section, p.last_section);
    enter_section();
    const int rest = place - section * per_section;
    entry = rest / width, within = rest - entry * width;
  }
  __device__ __forceinline__ int item() const { return section * p.section + within; }
  __device__ __forceinline__ void advance() {
    if (++within < width) return;
    within = 0;
    if (++entry < p.entry_count) return;
    entry = 0, ++section;
    enter_section();
  }

 private:
  __device__ __forceinline__ void enter_section() {
    width = section < p.last_section ? p.section : items - section * p.section;
  }
};

// The sum of what the threads before this one have. By all threads.
__device__ __forceinline__ int sum_before(int mine) {
  __shared__ int of_warps[kListThreads / 32];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  int sum = mine;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const int lower = __shfl_up_sync(~0u, sum, distance);
    if (lane >= distance) sum += lower;
  }
  if (lane == 31) of_warps[warp] = sum;
  __syncthreads();
  return __reduce_add_sync(~0u, lane < warp ? of_warps[lane] : 0) + sum - mine;
}

// Makes p.list. Grid: one CTA. A thread looks at places that follow each other, so that the list keeps their order:
// the dearest row blocks are begun first, and neighbours read the same keys at about the same time.
extern "C" __global__ void __launch_bounds__(kListThreads)
    list_row_blocks_kernel(const __grid_constant__ RowBlockListing p) {
  __shared__ int first_row[RowBlockListing::kMostItems], end_row[RowBlockListing::kMostItems],
      rows[RowBlockListing::kMostEntries];
  const int thread = static_cast<int>(threadIdx.x), items = p.shape.slices / p.shape.heads;
  allow_next_grid();
  for (int i = thread; i < p.entry_count; i += kListThreads)
    rows[i] = p.entries ? p.entries[i].row : (i < p.more_parts ? i % p.split_blocks : i - p.more_parts) * p.rows;
  wait_for_previous_grid();  // which may have made the lengths, or have read the list
  for (int item = thread; item < items; item += kListThreads) {
    const RowBlock at_zero = row_block_of<true>(p.shape, item * p.shape.heads, 0);
    if (p.entries) {
      first_row[item] = 1 - p.rows - at_zero.row, end_row[item] = at_zero.rows - at_zero.row;
    } else {  // the n-th that is taken is one of so many rows, whichever
      const int before = p.aligned ? (at_zero.keys - at_zero.rows) & 63 : 0;
      first_row[item] = 0, end_row[item] = at_zero.rows == 0 ? 0 : before + at_zero.rows;
    }
  }
  __syncthreads();
  const int places = items * p.entry_count, each = (places + kListThreads - 1) / kListThreads;
  const int begin = min(thread * each, places), count = min(each, places - begin);
  unsigned there = 0;
  ListWalk look(p, items, begin);
  for (int i = 0; i < count; ++i, look.advance()) {
    const int row = rows[look.entry], item = look.item();
    there |= (first_row[item] <= row && row < end_row[item] ? 1u : 0u) << i;
  }
  int* next = p.list + 1 + sum_before(__popc(there));
  ListWalk put(p, items, begin);
  for (int i = 0; i < count; ++i, put.advance())
    if (there >> i & 1) *next++ = put.item() << 16 | put.entry;
  if (thread == kListThreads - 1) p.list[0] = static_cast<int>(next - p.list) - 1;
}

}  // namespace stof::cuda
