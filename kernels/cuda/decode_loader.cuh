// SPDX-License-Identifier: Apache-2.0
// Brings the tiles of a decode task into a ring of stages, several ahead of their use: mask words and keys, then
// values. Rows past the last key become zeros and are not read, nor are their pages looked up.
#pragma once
#include "kernels/cuda/decode_ring.cuh"
#include "kernels/cuda/decode_tasks.cuh"
#include "kernels/cuda/mma.cuh"

namespace stof::cuda {

template <class Traits>
struct DecodeLoader {
  static constexpr int kPieces = Traits::kHeadDim / 8, kRowsAtOnce = Traits::kLoaderThreads / kPieces;
  static constexpr int kGroupKeys = 16, kKeyGroups = Traits::kTileKeys / kGroupKeys;  // no page is smaller
  static_assert(kGroupKeys % kRowsAtOnce == 0, "a group's rows are loaded in turns");

  typename Traits::Shared& shared;
  const DecodeParams& p;
  const DecodeTask& task;
  const DecodeTasks tasks;
  int thread, row, piece;  // among those that load; this one's of the rows that are copied at once
  bool has_columns;        // whether the head has this thread's piece
  bool small_pages;        // that a tile has several of
  const unsigned short *k, *v;
  u32 place;  // of row and piece in a stage
  int run_index;
  DecodeRun run, next_run;
  int key_start, last_start;  // of the tile to come; of the last one of its run
  int pages[kKeyGroups];      // of the tile to come; unless they are small, the first alone

  __device__ __forceinline__ DecodeLoader(typename Traits::Shared& memory, const DecodeParams& params,
                                          const DecodeTask& of, int first_tile)
      : shared(memory), p(params), task(of), tasks{params} {
    thread = static_cast<int>(threadIdx.x) - Traits::kReaderThreads;
    row = thread / kPieces, piece = thread % kPieces;
    has_columns = piece * 8 < p.head_dim;
    small_pages = p.pages.table && 1u << p.pages.shift < Traits::kTileKeys;
    place = TileRows<Traits::kHeadDim>::offset(row, piece);
    const RowItem item = item_of<Traits::kConstantItems>(p, task);
    const int column = has_columns ? piece * 8 : 0;
    k = static_cast<const unsigned short*>(p.k) + item.k + task.kv_head * p.k_stride.head + row * p.k_stride.row +
        column;
    v = static_cast<const unsigned short*>(p.v) + item.v + task.kv_head * p.v_stride.head + row * p.v_stride.row +
        column;
    run_index = tasks.run_of_tile(task.list, first_tile);
    run = tasks.run(task.list, run_index);
    begin_run();
    key_start += (first_tile - run.before) * Traits::kTileKeys;
    wait_for_inputs(p);
    look_up();
  }

  // The next tile into this stage.
  __device__ __forceinline__ void load(u32 stage) {
    if (run.bitmap >= 0 && thread < DecodeList::kRows / 2)
      copy_piece(shared_address(&shared.words[stage][2 * thread]),
                 p.layout.words + static_cast<long long>(run.bitmap) * DecodeList::kRows + 2 * thread, true);
    const u32 to = shared_address(shared.stages[stage]) + place;
    load_half(to, {k, p.k_stride.row, p.pages.k_stride});
    shared.ring.bring_keys(stage, thread == 0, {key_start, run.bitmap});
    load_half(to + Traits::kHalfBytes, {v, p.v_stride.row, p.pages.v_stride});
    shared.ring.bring_values(stage);
    advance();
  }

 private:
  // Keys or values of the task.
  struct Half {
    const unsigned short* first;
    long long row_stride, page_stride;
  };

  // Of the tile to come.
  __device__ __forceinline__ void load_half(u32 to, const Half& half) const {
    const bool whole = key_start + Traits::kTileKeys <= task.keys;
    if (whole && !small_pages) {
      load_rows<Traits::kTileKeys>(to, half, key_start, pages[0]);
    } else if (whole) {
#pragma unroll
      for (int i = 0; i < kKeyGroups; ++i)
        load_rows<kGroupKeys>(to + i * kGroupKeys * kRowBytes, half, key_start + i * kGroupKeys, pages[i]);
    } else {
#pragma unroll
      for (int i = 0; i < kKeyGroups; ++i)
        load_rows<kGroupKeys, true>(to + i * kGroupKeys * kRowBytes, half, key_start + i * kGroupKeys,
                                    small_pages ? pages[i] : pages[0]);
    }
  }

  __device__ __forceinline__ void begin_run() {
    key_start = run.key_start;
    last_start = run.key_start + (run.tiles - 1) * Traits::kTileKeys;
    // Read well before it is needed; the last run of a list has none after it.
    next_run = run_index + 1 < task.list.runs ? tasks.run(task.list, run_index + 1) : run;
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
    pages[0] = 0;
    if (p.pages.table == nullptr) return;
    const int* const table = p.pages.table + item_of<Traits::kConstantItems>(p, task).place * p.pages.item_stride;
#pragma unroll
    for (int i = 0; i < kKeyGroups; ++i)
      if (i == 0 || small_pages)
        pages[i] = __ldg(table + (min(key_start + i * kGroupKeys, task.keys - 1) >> p.pages.shift));
  }

  // This thread's of kCount rows from `key` on, which lie in one page. kLast: some may be behind the last key.
  template <int kCount, bool kLast = false>
  __device__ __forceinline__ void load_rows(u32 to, const Half& half, int key, int page) const {
    const u64 of_table = static_cast<u32>(page), in_page = static_cast<u32>(key) & ((1u << p.pages.shift) - 1);
    const unsigned short* from = half.first + of_table * half.page_stride + in_page * half.row_stride;
#pragma unroll
    for (int i = 0; i < kCount; i += kRowsAtOnce) {
      const bool there = has_columns && (!kLast || key + row + i < task.keys);
      // Eight rows on, the swizzle is the same; four rows on, the other half's.
      const u32 target = (kRowsAtOnce % 8 != 0 && i % 8 != 0 ? to ^ 4 << 4 : to) + i * kRowBytes;
      copy_piece(target, !kLast || there ? from : half.first, there);
      from += kRowsAtOnce * half.row_stride;
    }
  }
};

}  // namespace stof::cuda
