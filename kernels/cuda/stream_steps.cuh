// SPDX-License-Identifier: Apache-2.0
// Which row blocks a team takes, and the steps of each: by the lists of a layout, or by the spans of its rows.
#pragma once
#include "kernels/cuda/stream_traits.cuh"

namespace stof::cuda {

template <class Traits>
struct StreamSteps {
  const typename Traits::Params& p;

  // Of the keys of a step, those of a page that this lane looked up: the page, and the first one's row in it.
  struct PagedKeys {
    int page, row;
  };
  // What the layout says of a step: per tile its first key and the state of each part; and, of keys in pages, where.
  struct Step {
    int entries[Traits::kTiles][1 + Traits::kParts];
    PagedKeys paged;
  };
  // The steps that a row block has, before the first of them.
  struct Steps {
    Place first_key;  // of the slice
    const int* at;
    u32 late;  // StreamItem::late_steps from here on
    Step next;
  };
  struct RowBlockSteps {
    RowBlock block;
    Steps steps;
    int of_spans;  // FoundSpans::mine: row blocks that go by spans have no steps
  };

  __device__ __forceinline__ bool by_spans() const {
    if constexpr (Traits::kSelects) return p.spans.parts > 0;
    else return false;
  }

  __device__ __forceinline__ bool listed() const {
    if constexpr (Traits::kSelects) return p.list != nullptr;
    else return false;
  }
  static __device__ __forceinline__ int teams() { return static_cast<int>(gridDim.x) * Traits::kTeams; }  // of the grid

  // Sections of slices go through the items side by side; so did who made the list, item by item with all its heads.
  __device__ __forceinline__ WorkPlace work_place(int index) const {
    if constexpr (Traits::kSelects) {
      const Divisor& heads = p.call.shape.heads;
      if (!listed()) return slice_place(index);
      const int above = index / heads, listed = uniform(__ldcg(p.list + 1 + above));
      return {(listed >> 16) * heads + index - above * heads, listed & 0xffff};
    }
    return slice_place(index);
  }
  __device__ __forceinline__ WorkPlace slice_place(int index) const {
    const auto [place, entry] = place_in_sections(p.sections, index);
    return {slice_of(p.call.shape, place), entry};
  }

  __device__ __forceinline__ RowBlock row_block(int slice, const StreamItem& item) const {
    RowBlock block;
    if constexpr (Traits::kSelects) block = row_block_of(p.call.shape, p.numbers, slice, item.row);
    else block = row_block_of<true>(p.call.shape, slice, item.row);
    block.head += item.head;
    if constexpr (Traits::kStacked) block.head *= p.stacked_heads;  // the first one of the stack
    block.first_step = item.first_step, block.steps = item.steps, block.full_steps = item.full_steps;
    block.split = item.split;
    return block;
  }

  // Of a shorter item: steps of which some key exists. Full ones may reach past its end. By all lanes.
  __device__ __forceinline__ int steps_below(int keys, const StreamItem& item) const {
    const int* step = p.layout.steps + item.first_step * Traits::kStepInts;
    int count = 0;
    for (int n = static_cast<int>(threadIdx.x) % 32; n < item.steps; n += 32)
      count += exists(step + n * Traits::kStepInts, keys);
    return __reduce_add_sync(~0u, count);
  }
  static __device__ __forceinline__ bool exists(const int* step, int keys) {
    bool any = false;
#pragma unroll
    for (int tile = 0; tile < Traits::kTiles; ++tile) any |= __ldg(step + tile * (1 + Traits::kParts)) < keys;
    return any;
  }

  __device__ __forceinline__ bool has_rows(const RowBlock& block) const {
    return block.row < block.rows && block.row + Traits::kParts * positions_of_part<Traits>(p) > 0;
  }
  __device__ __forceinline__ RowBlockSteps look(int index) const {
    const auto [slice, entry] = work_place(index);
    if constexpr (Traits::kSelects)
      if (by_spans()) return look_by_spans(slice, entry);
    int at = (p.layout.group_of ? p.layout.group_of[slice] : 0) * p.layout.item_count + entry;
    if constexpr (Traits::kSelects) {
      const int rows = Traits::kParts * positions_of_part<Traits>(p);
      if (p.window.parts) at = item_in_window(p.call.shape, p.window, slice, rows, entry);
      if (at < 0) return {};
    }
    const StreamItem item = p.layout.items[at];
    const Step first = read(p.layout.first_steps + at * Traits::kStepInts);  // which need not wait for the item
    RowBlockSteps found{row_block(slice, item), {}, 0};
    if (!has_rows(found.block)) return found;
    if (found.block.keys < p.call.shape.keys) {
      found.block.steps = steps_below(found.block.keys, item);
      found.block.full_steps = 0;
      found.steps = steps_of(found.block, item.late_steps);
    } else {
      found.steps = before_steps(found.block, item.late_steps);
      found.steps.next = first;
    }
    return found;
  }

  // How many times a part's positions are in so many.
  __device__ __forceinline__ int parts_of(int positions) const {
    if constexpr (Traits::kStacked) return positions / p.positions;
    else return positions / 64;
  }

  // Rows that an item's first row block has in front of it.
  __device__ __forceinline__ int before_first_row(const RowBlock& block) const {
    if constexpr (Traits::kStacked) return 0;
    else return p.spans.aligned ? (block.keys - block.rows) & 63 : 0;
  }

  // Parts of a slice's row blocks, first those that only row blocks of many keys have; of each the same part of all row
  // blocks, which may read the same keys, from the one with the most keys on.
  __device__ __forceinline__ RowBlockSteps look_by_spans(int slice, int entry) const {
    constexpr int kTiles = Traits::kTiles;
    const int positions = positions_of_part<Traits>(p), height = Traits::kParts * positions;
    const int behind = entry / p.spans.split_blocks, from_first = entry - p.spans.more_parts;
    const int part = from_first < 0 ? p.spans.parts - 1 - behind : 0;
    // In the order in which they are taken.
    const int nth = from_first < 0 ? entry - behind * p.spans.split_blocks : from_first;
    RowBlockSteps found{row_block(slice, StreamItem{}), {}, 0};
    RowBlock& block = found.block;
    const int before = before_first_row(block);
    const int rows_of_parts = parts_of(before + block.rows + positions - 1);  // parts that have rows
    const int count = (rows_of_parts + Traits::kParts - 1) / Traits::kParts;
    const int number = p.spans.last_first ? count - 1 - nth : nth;
    block.row = number * height - before;
    if (number < 0 || number >= count) return {};
    FoundSpans<Traits::kParts> spans;
    spans.template look<kTiles, kTiles * Traits::kGroups>(p.spans, block, positions);
    const int steps = (spans.all + kTiles - 1) / kTiles;
    const int most_parts = nth < p.spans.split_blocks ? p.spans.parts : 1;
    const int parts = max(1, min((steps + p.spans.part_steps - 1) / p.spans.part_steps, most_parts));
    if (part >= parts) return {};
    const auto begin_of = [&](int n) { return n == parts ? steps : quick_quotient(steps * n, parts); };
    const int end = begin_of(part + 1);
    block.first_step = begin_of(part), block.steps = end - block.first_step;
    block.full_steps = max(0, end - max(block.first_step, (spans.listed + kTiles - 1) / kTiles));
    block.split = parts == 1 ? 0 : nth * p.spans.parts | part << 16 | parts << 24;
    found.of_spans = spans.mine;
    return found;
  }

  static __device__ __forceinline__ Step read(const int* step) {
    Step read;
#pragma unroll
    for (int i = 0; i < Traits::kStepInts; ++i)
      read.entries[i / (1 + Traits::kParts)][i % (1 + Traits::kParts)] = __ldg(step + i);
    return read;
  }

  // Where the slice's keys lie.
  __device__ __forceinline__ Place first_key(const RowBlock& block) const {
    const int kv_head = block.head / p.call.shape.heads_per_kv;
    if constexpr (Traits::kPaged) return {0, 0, 0, kv_head, block.slice / p.call.shape.heads};
    else return {0, block.place.key_start, block.residue, kv_head, block.place.item};
  }
  __device__ __forceinline__ Steps before_steps(const RowBlock& block, u32 late) const {
    Steps steps;
    steps.first_key = first_key(block);
    steps.late = late;
    steps.at = p.layout.steps + block.first_step * Traits::kStepInts;
    return steps;
  }

  __device__ __forceinline__ Steps steps_of(const RowBlock& block, u32 late) const {
    Steps steps = before_steps(block, late);
    if (block.steps == 0) return steps;
    if (block.keys < p.call.shape.keys)
      while (!exists(steps.at, block.keys)) skip_step(steps);
    steps.next = read(steps.at);
    return steps;
  }
  static __device__ __forceinline__ void skip_step(Steps& steps) {
    steps.at += Traits::kStepInts;
    steps.late >>= 1;
  }
};

}  // namespace stof::cuda
