// SPDX-License-Identifier: Apache-2.0
// The work of a decode launch: tasks of a few rows and many keys, and the equal share of all their tiles that each CTA
// takes. Every CTA finds its own, so that lengths may come from the device.
#pragma once
#include "kernels/cuda/draft_trees.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/quotient.cuh"
#include "kernels/shared/decode_shares.h"

namespace stof::cuda {

// Dependent launch, where there is one.
__device__ __forceinline__ void wait_for_inputs() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  wait_for_previous_grid();
#endif
}
// Of a launch beside another one, which began when inputs were there, none.
__device__ __forceinline__ void wait_for_inputs(const DecodeParams& p) {
  if (!p.follows) wait_for_inputs();
}
__device__ __forceinline__ void allow_overlap() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  allow_next_grid();
#endif
}

// To the L2.
__device__ __forceinline__ void prefetch_line(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

struct DecodePlace {
  int head, query;
};

struct DecodeTask {
  const RowItem* item;  // not set where it is read as a constant: item_of
  int place;            // of the item in the launch
  int first_head, kv_head;
  int first_row, rows;  // of the set; rows of this task
  int keys;
  int position;  // row of the list at which the item's query 0 lies
  DecodeList list;
  int tiles;  // that begin before the last key
  // Of work: the tiles, and in front of them what a CTA that begins a task loses. 1 when rows without a key are to be
  // written, 0 when the task has no row.
  int units;

  // Of a row of the task, whose item is this.
  __device__ __forceinline__ DecodePlace place_of(int row, const RowItem& item) const {
    const int at = first_row + row, head = quick_quotient(at, item.queries);
    return {first_head + head, at - head * item.queries};
  }
};

// Of a task that all threads have. kConstants: of items among the parameters constants are read, since by their address
// no cache has them at the beginning.
template <bool kConstants>
__device__ __forceinline__ RowItem item_of(const DecodeParams& p, const DecodeTask& task) {
  if constexpr (!kConstants) return *task.item;
  if (p.item_list) return p.item_list[task.place];
  return p.items[task.place];
}

struct DecodeTasks {
  const DecodeParams& p;

  __device__ __forceinline__ int count() const { return p.item_count * p.layout.sets * p.chunks; }

  // Behind the tasks with the first rows of all sets come those with the next rows: CTAs whose shares are of the same
  // keys then read them at the same time, most from the L2. kConstants: as of item_of.
  template <bool kConstants>
  __device__ __forceinline__ DecodeTask at(int index) const {
    const Place in_launch = place_of(index);
    if constexpr (kConstants)
      if (p.units > 0) return alike_at(in_launch);
    const RowItem& item = (p.item_list ? p.item_list : p.items)[in_launch.item];
    const DecodeHeads heads = heads_of(item, in_launch.set);
    DecodeTask task = of_rows(in_launch, heads, item.queries);
    if constexpr (!kConstants) task.item = &item;
    task.kv_head = quick_quotient(heads.first, p.heads_per_kv);
    if (task.rows <= 0) return task;
    task.units = 1;
    task.keys = p.key_lengths ? min(max(p.key_lengths[item.place], 0), item.keys) : item.keys;
    if (task.keys == 0) return task;
    const int block = find_position(task, item.queries);
    if constexpr (!kConstants)
      if (p.units > 0) return take_list(task);
    const int wide = task.position + item.queries > DecodeList::kPositions;
    const int4 list =
        __ldg(reinterpret_cast<const int4*>(p.layout.lists) + (2ll * heads.group + wide) * p.layout.blocks + block);
    task.list = {list.x, list.y, list.z, list.w};
    task.tiles = task.list.last_key < task.keys ? task.list.tiles : tiles_below(task.list, task.keys);
    if (task.tiles > 0) task.units = task.tiles + p.start;
    return task;
  }

  // The same where there are `units`.
  __device__ __forceinline__ DecodeTask alike_at(int index) const { return alike_at(place_of(index)); }

  // The list's i-th. Those that the parameters have are there before memory would answer.
  __device__ __forceinline__ DecodeRun run(const DecodeList& list, int i) const {
    static_assert(DecodeParams::kMostGiven == 2);
    if (i >= p.given_runs) return run_in_memory(list, i);
    return i == 0 ? p.first_runs[0] : p.first_runs[1];
  }

  // Which of a list's runs has this tile. None is empty, so that no more than `tile` are before it.
  __device__ __forceinline__ int run_of_tile(const DecodeList& list, int tile) const {
    int low = 0, high = min(list.runs - 1, tile);
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (run(list, middle).before <= tile) low = middle;
      else high = middle - 1;
    }
    return low;
  }

 private:
  // Of a task in the launch.
  struct Place {
    int item, set, chunk;
  };
  __device__ __forceinline__ Place place_of(int index) const {
    static_assert(DecodeParams::kMostTasks <= 1 << 18);
    const int of_chunk = p.item_count * p.layout.sets, chunk = p.chunks > 1 ? quick_quotient(index, of_chunk) : 0;
    const int in_chunk = index - chunk * of_chunk, item = quick_quotient(in_chunk, p.layout.sets);
    return {item, in_chunk - item * p.layout.sets, chunk};
  }

  // Without its keys.
  __device__ __forceinline__ DecodeTask of_rows(const Place& at, const DecodeHeads& heads, int queries) const {
    DecodeTask task;
    task.place = at.item, task.first_head = heads.first;
    task.first_row = at.chunk * p.task_rows;
    task.rows = min(heads.count * queries - task.first_row, p.task_rows);
    task.tiles = task.units = 0;
    return task;
  }

  // Where the host knows what each has: as many queries and keys as the first item.
  __device__ __forceinline__ DecodeTask alike_at(const Place& at) const {
    const DecodeHeads heads{at.set * p.heads_per_kv, p.heads_per_kv, 0};
    DecodeTask task = of_rows(at, heads, p.items[0].queries);
    task.kv_head = at.set;
    if (task.rows <= 0) return task;
    task.keys = p.items[0].keys;
    find_position(task, p.items[0].queries);
    return take_list(task);
  }
  __device__ __forceinline__ DecodeTask take_list(DecodeTask task) const {
    task.list = p.list, task.tiles = p.list.tiles, task.units = p.units;
    return task;
  }

  // In its block of positions, which is the answer.
  __device__ __forceinline__ int find_position(DecodeTask& task, int queries) const {
    const int at = task.keys - queries - p.layout.first_position, block = at / DecodeList::kPositions;
    task.position = at - block * DecodeList::kPositions;
    return block;
  }

  __device__ __forceinline__ DecodeRun run_in_memory(const DecodeList& list, int i) const {
    const int4 run = __ldg(reinterpret_cast<const int4*>(p.layout.runs) + list.first_run + i);
    return {run.x, run.y, run.z, run.w};
  }

  __device__ __forceinline__ DecodeHeads heads_of(const RowItem& item, int set) const {
    if (p.layout.heads == nullptr) return {set * p.heads_per_kv, p.heads_per_kv, 0};
    return p.layout.heads[static_cast<long long>(item.index) * p.layout.sets + set];
  }

  // Of the list's, that start before this key.
  __device__ __forceinline__ int tiles_below(const DecodeList& list, int keys) const {
    int low = 0, high = list.runs;  // the first run that starts at `keys` or later
    while (low < high) {
      const int middle = (low + high) / 2;
      if (run_in_memory(list, middle).key_start < keys) low = middle + 1;
      else high = middle;
    }
    if (low == 0) return 0;
    const DecodeRun last = run_in_memory(list, low - 1);
    const int left = (keys - last.key_start + DecodeList::kTileKeys - 1) / DecodeList::kTileKeys;
    return last.before + min(last.tiles, left);
  }
};

// Where the host knows what each task has: no thread counts, and where shares are even none divides. First of all CTAs,
// without what one of them has.
__device__ __forceinline__ DecodeShare shares_of_alike(const DecodeTasks& tasks) {
  const DecodeParams& p = tasks.p;
  DecodeShare share{};
  share.total = tasks.count() * p.units, share.ctas = min(share.total, p.ctas), share.each = p.each,
  share.rest = p.rest;
  return share;
}
__device__ __forceinline__ DecodeShare share_of_alike(const DecodeTasks& tasks) {
  const int cta = static_cast<int>(blockIdx.x);
  DecodeShare share = shares_of_alike(tasks);
  share.take(cta);
  share.find_task(quick_quotient(cta * tasks.count(), share.ctas), tasks.p.units);
  return share;
}

// By all threads, of which 128 count. units: memory for one number a task; sums, found: of the CTA. The first is free
// again afterwards.
__device__ __forceinline__ DecodeShare share_of_cta(const DecodeTasks& tasks, int* units, int (&sums)[4],
                                                    int (&found)[2]) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, count = tasks.count();
  const int cta = static_cast<int>(blockIdx.x);
  if (tasks.p.units > 0) {
    __syncthreads();
    return share_of_alike(tasks);
  }
  if (tasks.p.alike) {
    const int each = tasks.at<true>(0).units;
    DecodeShare share = cut_share(count * each, tasks.p.ctas, cta);
    share.task = share.begin / each, share.offset = share.begin - share.task * each;
    __syncthreads();
    return share;
  }
  // Each task takes loads that depend on each other: as many tasks as there are threads at once.
#pragma unroll 2
  for (int task = thread; task < count; task += static_cast<int>(blockDim.x)) units[task] = tasks.at<true>(task).units;
  __syncthreads();
  const bool counts = thread < 128;
  const int each = (count + 127) / 128, first = min(thread * each, count),
            last = counts ? min(first + each, count) : first;
  int mine = 0;
  for (int task = first; task < last; ++task) mine += units[task];
  int before = mine;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int lower = __shfl_up_sync(~0u, before, step);
    if (lane >= step) before += lower;
  }
  if (counts && lane == 31) sums[thread / 32] = before;
  __syncthreads();
  before -= mine;
  for (int warp = 0; warp < min(thread / 32, 4); ++warp) before += sums[warp];
  DecodeShare share = cut_share(sums[0] + sums[1] + sums[2] + sums[3], tasks.p.ctas, cta);
  if (counts && before <= share.begin && share.begin < before + mine) {
    int task = first, offset = share.begin - before;
    while (offset >= units[task]) offset -= units[task++];
    found[0] = task, found[1] = offset;
  }
  __syncthreads();
  share.task = found[0], share.offset = found[1];
  return share;
}

}  // namespace stof::cuda
