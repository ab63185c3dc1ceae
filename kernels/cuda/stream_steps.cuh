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
    Step next;
    SpanTiles tiles;  // by spans, in place of `at`
  };
  struct RowBlockSteps {
    RowBlock block;
    Steps steps;
    u32 late;      // StreamItem::late_steps
    int of_spans;  // FoundSpans::mine
  };

  __device__ __forceinline__ bool by_spans() const {
    if constexpr (Traits::kSelects) return p.spans.rows != nullptr;
    else return false;
  }

  // With the items' numbers where they are.
  __device__ __forceinline__ SliceShape shape() const {
    SliceShape shape = p.call.shape;
    if (p.numbers.given) {
      shape.query_lengths = p.numbers.query_lengths, shape.key_lengths = p.numbers.key_lengths;
      if (p.numbers.with_starts) shape.query_starts = p.numbers.query_starts, shape.key_starts = p.numbers.key_starts;
    }
    return shape;
  }
  __device__ __forceinline__ bool listed() const {
    if constexpr (Traits::kSelects) return p.list != nullptr;
    else return false;
  }
  static __device__ __forceinline__ int teams() { return static_cast<int>(gridDim.x) * Traits::kTeams; }  // of the grid

  struct WorkPlace {
    int slice, entry;
  };
  // Sections of slices go through the items side by side; so did who made the list, item by item with all its heads.
  __device__ __forceinline__ WorkPlace work_place(int index) const {
    if constexpr (Traits::kSelects) {
      if (!listed()) return place_in_sections(index);
      const int heads = p.call.shape.heads, above = index / heads, listed = uniform(__ldcg(p.list + 1 + above));
      return {(listed >> 16) * heads + index - above * heads, listed & 0xffff};
    }
    return place_in_sections(index);
  }
  __device__ __forceinline__ WorkPlace place_in_sections(int index) const {
    const int per_section = p.layout.item_count * p.section;
    const int section = p.last_section == 0 ? 0 : min(index / per_section, p.last_section);
    const int within = index - section * per_section;
    const int width = section < p.last_section ? p.section : p.call.shape.slices - section * p.section;
    const int entry = within / width, slice = section * p.section + within - entry * width;
    return {slice_of(p.call.shape, slice), entry};
  }

  __device__ __forceinline__ RowBlock row_block(int slice, const StreamItem& item) const {
    RowBlock block;
    if constexpr (Traits::kSelects) block = row_block_of<true>(shape(), slice, item.row);
    else block = row_block_of<true>(p.call.shape, slice, item.row);
    block.head += item.head;
    if constexpr (Traits::kStacked) block.head <<= 6 - p.positions_log2;  // the first one of the stack
    block.first_step = item.first_step, block.steps = item.steps, block.full_steps = item.full_steps;
    block.split = item.split;
    return block;
  }

  // Of a shorter item: steps of which some key exists. Full ones may reach past its end.
  __device__ __forceinline__ int steps_below(int keys, const StreamItem& item) const {
    const int* step = p.layout.steps + item.first_step * Traits::kStepInts;
    int count = 0;
#pragma unroll 4
    for (int n = 0; n < item.steps; ++n) count += exists(step + n * Traits::kStepInts, keys);
    return count;
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
    RowBlockSteps found{row_block(slice, item), {}, item.late_steps};
    if (!has_rows(found.block)) return found;
    if (found.block.keys < p.call.shape.keys) {
      found.block.steps = steps_below(found.block.keys, item);
      found.block.full_steps = 0;
      found.steps = steps_of(found.block);
    } else {
      found.steps = before_steps(found.block);
      found.steps.next = first;
    }
    return found;
  }

  // Row blocks of a slice from the last one's first row on: with causal masks that one has the most keys.
  __device__ __forceinline__ RowBlockSteps look_by_spans(int slice, int entry) const {
    constexpr int kTiles = Traits::kTiles;
    const int positions = positions_of_part<Traits>(p), height = Traits::kParts * positions;
    const int from_last = entry / p.spans.parts, part = entry - from_last * p.spans.parts;
    RowBlockSteps found{row_block(slice, StreamItem{}), {}, 0, 0};
    RowBlock& block = found.block;
    const int number = (block.rows + height - 1) / height - 1 - from_last;
    block.row = number * height;
    if (number < 0) return {};
    FoundSpans<Traits::kParts> spans;
    spans.template look<kTiles, kTiles * Traits::kGroups>(p.spans, block, positions);
    const int steps = (spans.all + kTiles - 1) / kTiles;
    const int parts = max(1, min((steps + p.spans.part_steps - 1) / p.spans.part_steps, p.spans.parts));
    if (part >= parts) return {};
    const int end = steps * (part + 1) / parts;
    block.first_step = steps * part / parts, block.steps = end - block.first_step;
    block.full_steps = max(0, end - max(block.first_step, (spans.listed + kTiles - 1) / kTiles));
    block.split = parts == 1 ? 0 : number * p.spans.parts | part << 16 | parts << 24;
    found.of_spans = spans.mine;
    found.steps = span_steps(block, spans.tiles);
    return found;
  }
  __device__ __forceinline__ Steps span_steps(const RowBlock& block, const SpanTiles& tiles) const {
    Steps steps = before_steps(block);
    steps.tiles = tiles;
    steps.next = span_step(steps, block.first_step, block.keys);
    return steps;
  }
  __device__ __forceinline__ Step span_step(const Steps& steps, int number, int keys) const {
    Step step;
#pragma unroll
    for (int tile = 0; tile < Traits::kTiles; ++tile) {
      step.entries[tile][0] = steps.tiles.key(number * Traits::kTiles + tile, keys);
#pragma unroll
      for (int i = 1; i <= Traits::kParts; ++i) step.entries[tile][i] = TileState::kFull;
    }
    return step;
  }

  static __device__ __forceinline__ Step read(const int* step) {
    Step read;
#pragma unroll
    for (int i = 0; i < Traits::kStepInts; ++i)
      read.entries[i / (1 + Traits::kParts)][i % (1 + Traits::kParts)] = __ldg(step + i);
    return read;
  }

  __device__ __forceinline__ Steps before_steps(const RowBlock& block) const {
    Steps steps;
    const int kv_head = quotient(block.head, p.call.shape.heads_per_kv);
    if constexpr (Traits::kPaged) steps.first_key = {0, 0, 0, kv_head, quotient(block.slice, p.call.shape.heads)};
    else steps.first_key = {0, block.place.key_start, block.residue, kv_head, block.place.item};
    steps.at = p.layout.steps + block.first_step * Traits::kStepInts;
    return steps;
  }

  // tiles: of spans, if row blocks go by these.
  __device__ __forceinline__ Steps steps_of(const RowBlock& block, const SpanTiles& tiles) const {
    if constexpr (Traits::kSelects)
      if (by_spans()) return span_steps(block, tiles);
    return steps_of(block);
  }
  __device__ __forceinline__ Steps steps_of(const RowBlock& block) const {
    Steps steps = before_steps(block);
    if (block.steps == 0) return steps;
    if (block.keys < p.call.shape.keys)
      while (!exists(steps.at, block.keys)) steps.at += Traits::kStepInts;
    steps.next = read(steps.at);
    return steps;
  }
};

}  // namespace stof::cuda
