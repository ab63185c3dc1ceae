// SPDX-License-Identifier: Apache-2.0
// Brings the tiles of a decode task into a ring of stages, several ahead of their use: keys, values, mask words. Rows
// past the last key become zeros and are not read, nor are their pages looked up.
#pragma once
#include "kernels/cuda/decode_ring.cuh"
#include "kernels/cuda/decode_tasks.cuh"
#include "kernels/cuda/mma.cuh"

namespace stof::cuda {

// Dependent launch, where there is one.
__device__ __forceinline__ void wait_for_inputs() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  wait_for_previous_grid();
#endif
}
__device__ __forceinline__ void allow_overlap() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  allow_next_grid();
#endif
}

template <class Traits>
struct DecodeLoader {
  static constexpr int kPieces = Traits::kHeadDim / 8, kRowsAtOnce = Traits::kRoleThreads / kPieces;
  static constexpr int kGroupKeys = 16, kGroups = Traits::kTileKeys / kGroupKeys;  // no page is smaller
  static_assert(kGroupKeys % kRowsAtOnce == 0, "a group's rows are loaded in turns");

  typename Traits::Shared& shared;
  const DecodeParams& p;
  const DecodeTask& task;
  const DecodeTasks tasks;
  int thread, row, piece;  // among those that load; this one's of the rows that are copied at once
  const unsigned short *k, *v;
  int run_index;
  DecodeRun run, next_run;
  int key_start, last_start;  // of the tile to come; of the last one of its run
  int pages[kGroups];         // of the tile to come

  __device__ __forceinline__ DecodeLoader(typename Traits::Shared& memory, const DecodeParams& params,
                                          const DecodeTask& of, int first_tile)
      : shared(memory), p(params), task(of), tasks{params} {
    thread = static_cast<int>(threadIdx.x) % Traits::kRoleThreads;
    row = thread / kPieces, piece = thread % kPieces;
    const RowItem& item = *task.item;
    k = static_cast<const unsigned short*>(p.k) + item.k + task.kv_head * p.k_stride.head + piece * 8;
    v = static_cast<const unsigned short*>(p.v) + item.v + task.kv_head * p.v_stride.head + piece * 8;
    run_index = tasks.run_of_tile(task.list, first_tile);
    run = tasks.run(run_index);
    begin_run();
    key_start += (first_tile - run.before) * Traits::kTileKeys;
    wait_for_inputs();
    look_up();
  }

  // The next tile into this stage.
  __device__ __forceinline__ void load(u32 stage) {
    if (run.bitmap >= 0 && thread < DecodeList::kRows / 2)
      copy_piece(shared_address(&shared.words[stage][2 * thread]),
                 p.layout.words + static_cast<long long>(run.bitmap) * DecodeList::kRows + 2 * thread, true);
    const u32 to = shared_address(shared.stages[stage]) + SwizzledRows<Traits::kHeadDim>::offset(row, piece);
#pragma unroll
    for (int group = 0; group < kGroups; ++group) load_group(group, to);
    shared.ring.loads(stage, thread == 0, {key_start, run.bitmap});
    advance();
  }

 private:
  __device__ __forceinline__ void begin_run() {
    key_start = run.key_start;
    last_start = run.key_start + (run.tiles - 1) * Traits::kTileKeys;
    // Read well before it is needed; the last run of a list has none after it.
    next_run = run_index + 1 < task.list.first_run + task.list.runs ? tasks.run(run_index + 1) : run;
  }

  __device__ __forceinline__ void advance() {
    if (key_start < last_start) {
      key_start += Traits::kTileKeys;
    } else {
      run = next_run;
      ++run_index;
      begin_run();
    }
    look_up();
  }

  __device__ __forceinline__ void look_up() {
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const int key = key_start + group * kGroupKeys;
      pages[group] = p.pages.table && key < task.keys
                         ? __ldg(p.pages.table + task.item->place * p.pages.item_stride + (key >> p.pages.shift))
                         : 0;
    }
  }

  __device__ __forceinline__ void load_group(int group, u32 to) const {
    const int key = key_start + group * kGroupKeys + row;
    const long long in_page = key & static_cast<int>((1u << p.pages.shift) - 1);
    const unsigned short* k_row = k + pages[group] * p.pages.k_stride + in_page * p.k_stride.row;
    const unsigned short* v_row = v + pages[group] * p.pages.v_stride + in_page * p.v_stride.row;
#pragma unroll
    for (int i = 0; i < kGroupKeys; i += kRowsAtOnce) {
      const bool there = key + i < task.keys && piece * 8 < p.head_dim;
      // kRowsAtOnce is a multiple of 8, or the swizzle of the row differs from the first one's.
      const u32 target = kRowsAtOnce % 8 == 0 ? to + static_cast<u32>(group * kGroupKeys + i) * (2 * Traits::kHeadDim)
                                              : target_of(group * kGroupKeys + i, to);
      copy_piece(target, there ? k_row : k, there);
      copy_piece(target + Traits::kHalfBytes, there ? v_row : v, there);
      k_row += kRowsAtOnce * p.k_stride.row;
      v_row += kRowsAtOnce * p.v_stride.row;
    }
  }
  __device__ __forceinline__ u32 target_of(int first, u32 to) const {
    using Rows = SwizzledRows<Traits::kHeadDim>;
    return to - Rows::offset(row, piece) + Rows::offset(first + row, piece);
  }
};

}  // namespace stof::cuda
