// SPDX-License-Identifier: Apache-2.0
// Row blocks that begin at any row of an item: which tiles of keys their rows need, by the rows' spans.
#pragma once
#include "kernels/cuda/draft_trees.cuh"
#include "kernels/cuda/row_block.cuh"
#include "kernels/shared/device_layout.h"
#include "kernels/shared/row_spans.h"

namespace stof::cuda {

constexpr int kBehindAll = 1 << 30;  // all keys

__device__ __forceinline__ RowKeys row_keys(const RowSpans& spans, int position) {
  if (spans.rows == nullptr)
    return {spans.rule.prefix_end, max(position + spans.rule.begin, 0), position + spans.rule.end, 0};
  const int4 keys = __ldg(reinterpret_cast<const int4*>(spans.rows + position - spans.first_position));
  return {keys.x, keys.y, keys.z, keys.w};
}

// Of some rows: no row needs keys outside [begin, end) and [0, prefix_end); all are allowed [full_begin, full_end) and
// [0, full_prefix_end).
struct SpanReach {
  int begin = kBehindAll, end = 0, full_begin = 0, full_end = kBehindAll, prefix_end = 0, full_prefix_end = kBehindAll;

  __device__ __forceinline__ void add(const RowKeys& row) {
    if (row.begin < row.end) begin = min(begin, row.begin);
    end = max(end, row.end);
    full_begin = max(full_begin, row.begin), full_end = min(full_end, row.end);
    prefix_end = max(prefix_end, row.prefix_end), full_prefix_end = min(full_prefix_end, row.prefix_end);
  }
  // Of all lanes together.
  __device__ __forceinline__ void unite() {
    begin = __reduce_min_sync(~0u, begin), full_begin = __reduce_max_sync(~0u, full_begin);
    end = __reduce_max_sync(~0u, end), full_end = __reduce_min_sync(~0u, full_end);
    prefix_end = __reduce_max_sync(~0u, prefix_end), full_prefix_end = __reduce_min_sync(~0u, full_prefix_end);
  }
  __device__ __forceinline__ void cut_at(int keys) {
    end = min(end, keys), full_end = min(full_end, keys);
    prefix_end = min(prefix_end, keys), full_prefix_end = min(full_prefix_end, keys);
  }
  __device__ __forceinline__ void cut_full_at(int keys) {
    full_end = min(full_end, keys), full_prefix_end = min(full_prefix_end, keys);
  }
  // What the tile of 64 keys from `key` on is to the rows, in place of words of a layout: TileState.
  static constexpr int kCut = 0, kCutPrefix = 1;
  __device__ __forceinline__ int state(int key) const {
    const bool in_prefix = key < prefix_end;
    if (!in_prefix && !(key < end && key + 64 > begin))
      return TileState::kUnused;  // all tiles, where there are no rows
    if ((key >= full_begin && key + 64 <= full_end) || key + 64 <= full_prefix_end) return TileState::kFull;
    return in_prefix ? kCutPrefix : kCut;
  }
};

// The tiles of a row block, in the order in which they are taken: first those that have states, by which consumers read
// what their rows are allowed, then those that are full for all rows.
struct SpanTiles {
  int first, first_count;  // the full ones that rows meet first, so that all have scores, and on to the last key
  int prefix_end;          // number of the first tile behind those and the prefix's
  int base;                // key of the range's first tile, on to the full ones; tiles are 64 keys apart
  int nothing;             // number of a tile without keys, which fills a step up
  int late;                // rows may have their first key in tiles up to this key; not said where few tiles are such

  __device__ __forceinline__ int key(int number, int keys) const {
    if (number == nothing) return keys;
    if (number > nothing) --number;
    if (number < first_count) return first + 64 * number;
    return number < prefix_end ? 64 * (number - first_count) : base + 64 * (number - prefix_end);
  }
};

// A row block as a loading warp has it: each lane has a number, of what part's rows reach or of where tiles are.
template <int kParts>
struct FoundSpans {
  static constexpr int kOfTiles = 24;
  int mine = 0;    // part i's from lane 6 * i on, those of tiles from lane kOfTiles on
  int listed = 0;  // tiles of which the consumers read states
  int all = 0;     // tiles

  // By a warp. positions: of a part. covering: the first tiles should be so many full ones.
  template <int kTiles, int kCovering>
  __device__ __forceinline__ void look(const RowSpans& spans, const RowBlock& block, int positions) {
    SpanReach reach;
    bool all_have_rows = true;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const SpanReach of_part = reach_of(spans, block, block.row + positions * part, positions);
      keep(6 * part, {of_part.begin, of_part.end, of_part.full_begin, of_part.full_end, of_part.prefix_end,
                      of_part.full_prefix_end});
      reach.begin = min(reach.begin, of_part.begin), reach.end = max(reach.end, of_part.end);
      reach.full_begin = max(reach.full_begin, of_part.full_begin);
      reach.full_end = min(reach.full_end, of_part.full_end);
      reach.prefix_end = max(reach.prefix_end, of_part.prefix_end);
      all_have_rows = all_have_rows && block.row + positions * part < block.rows;
    }
    order<kTiles, kCovering>(reach, all_have_rows, spans.key_step);
  }

  static __device__ __forceinline__ SpanTiles tiles_of(int mine) {
    const auto number = [&](int i) { return __shfl_sync(~0u, mine, kOfTiles + i); };
    return {number(0), number(1), number(2), number(3), number(4), number(5)};
  }
  // What a warp has to have that looks for tiles alone.
  static __device__ __forceinline__ int mine_of(const SpanTiles& tiles) {
    const int i = static_cast<int>(threadIdx.x) % 32 - kOfTiles;
    return i < 0 || i > 5 ? 0 : reinterpret_cast<const int*>(&tiles)[i];
  }

  // By a warp, whose lanes may ask for tiles of their own, from `key` on: for each part TileState, and whether rows may
  // have their first key there, packed.
  static __device__ __forceinline__ int states_of(int mine, const SpanTiles& tiles, int key) {
    int states = key <= tiles.late ? kLate : 0;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const auto number = [&](int i) { return __shfl_sync(~0u, mine, 6 * part + i); };
      const SpanReach reach{number(0), number(1), number(2), number(3), number(4), number(5)};
      states |= (reach.state(key) - TileState::kUnused) << kBits * part;
    }
    return states;
  }
  static __device__ __forceinline__ int state_of_part(int states, int part) {
    return (states >> kBits * part & ((1 << kBits) - 1)) + TileState::kUnused;
  }
  static __device__ __forceinline__ bool is_late(int states) { return (states & kLate) != 0; }

 private:
  static constexpr int kBits = 2, kLate = 1 << kBits * kParts;
  static_assert(6 * kParts <= kOfTiles);

  __device__ __forceinline__ void keep(int from, const int (&numbers)[6]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < 6; ++i)
      if (lane == from + i) mine = numbers[i];
  }
  // By a rule the first row and the last one reach as far as any. A first row in front of all keys sees none, but rows
  // between them may see keys in front of those of the last one: as many as begin where it would.
  static __device__ __forceinline__ SpanReach reach_of(const RowSpans& spans, const RowBlock& block, int row,
                                                       int positions) {
    SpanReach reach;
    const int first = max(row, 0), end = min(row + positions, block.rows), before = block.keys - block.rows;
    if (block.keys > 0 && first < end) {
      if (spans.rows == nullptr) {
        const RowKeys of_first = row_keys(spans, before + first);
        reach.add(of_first), reach.add(row_keys(spans, before + end - 1));
        if (reach.begin < reach.end) reach.begin = min(reach.begin, of_first.begin);
      } else {
        for (int i = first + static_cast<int>(threadIdx.x) % 32; i < end; i += 32)
          reach.add(row_keys(spans, before + i));
        reach.unite();
      }
    }
    reach.cut_at(block.keys);
    if (has_tree(spans.trees, block.rows)) reach.cut_full_at(block.keys - block.rows);
    return reach;
  }

  // A part without rows takes no product of tiles that are looked at, and would of others.
  template <int kTiles, int kCovering>
  __device__ __forceinline__ void order(const SpanReach& reach, bool all_have_rows, int key_step) {
    int of_prefix = (reach.prefix_end + 63) / 64, base = 0, range = 0;
    if (reach.begin < reach.end) {
      int end = reach.end;
      base = reach.begin & -key_step;
      if (64 * of_prefix > base) of_prefix = base = 0, end = max(end, reach.prefix_end);
      range = (end - base + 63) / 64;
    }
    int full_first = reach.full_begin <= base ? 0 : (reach.full_begin - base + 63) / 64;
    int full_end = min(range, (reach.full_end - base) >> 6);
    if (full_first >= full_end || !all_have_rows) full_first = full_end = range;
    const int full = full_end - full_first;
    int covering = min(full, kCovering);
    if (kTiles == 2 && ((full - covering) & 1) != 0) ++covering;
    const int first = base + 64 * (full_end - covering), first_count = covering + range - full_end;
    const int prefix_end = first_count + of_prefix;
    const bool begin_near = reach.full_begin - reach.begin <= 64 * kParts;
    const int late = covering == 0 && of_prefix == 0 && begin_near ? reach.full_begin : -1;
    listed = prefix_end + full_first;
    const bool odd = kTiles == 2 && (listed & 1) != 0;
    const int nothing = odd ? listed++ : kBehindAll;
    keep(kOfTiles, {first, first_count, prefix_end, base, nothing, late});
    all = listed + full - covering;
  }
};

}  // namespace stof::cuda
