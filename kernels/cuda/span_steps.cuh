// SPDX-License-Identifier: Apache-2.0
// The steps of a row block that goes by the spans of its rows: which keys each brings, and the pages that these lie in.
#pragma once
#include "kernels/cuda/stream_steps.cuh"

namespace stof::cuda {

template <class Traits>
struct SpanSteps : StreamSteps<Traits> {
  using Base = StreamSteps<Traits>;
  using Base::p;
  using Spans = FoundSpans<Traits::kParts>;
  static constexpr int kTilesLog2 = Traits::kTiles - 1;
  static_assert(Traits::kTiles <= 2);
  static constexpr int kNoPage = 1 << 30;  // behind the pool, so that zeros come
  static constexpr int kMostBoxes = 4;     // of a tile: pages have 16 keys and more

  // A lane's box of keys, of a tile of one of the coming steps: what a copy brings of a page, or a whole tile.
  struct Box {
    int tile_key, states, page;
  };
  struct Step {
    // Of a tile. The compiler knows it (visit_steps): a loading warp's instructions must not take longer than a step's
    // products.
    int boxes_log2;
    int keys[Traits::kTiles];  // the first one of each tile
    Box boxes;                 // the lane's, and those of the step from lane `first` on
    int first;
    bool listed;  // tiles have states
    int end;      // the item's keys

    __device__ __forceinline__ int lane_of(int tile) const { return first + (tile << boxes_log2); }
  };

  // Of as many steps as a warp has lanes for, from the row block's n-th on. of_spans: Spans::mine; kStates: boxes
  // should say what a listed step's tiles are.
  template <bool kStates>
  __device__ __forceinline__ Box boxes_from(const RowBlock& block, int of_spans, const Place& first_key, int n) const {
    const SpanTiles tiles = Spans::tiles_of(of_spans);
    Box box = box_of_lane(block, tiles, first_key, block.first_step + n);
    if (kStates && n < block.steps - block.full_steps) box.states = Spans::states_of(of_spans, tiles, box.tile_key);
    return box;
  }

  // visit(step) for each; `ahead`: boxes of the first ones. A look is ahead by as many steps as it finds boxes of: page
  // tables are read meanwhile.
  template <bool kStates, class Visit>
  __device__ __forceinline__ void for_each_span_step(const RowBlock& block, int of_spans, const Place& first_key,
                                                     const Box& ahead, const Visit& visit) const {
    const int log2 = boxes_log2();
    if (log2 == 0) return visit_steps<0, kStates>(block, of_spans, first_key, ahead, visit);
    if constexpr (Traits::kPaged) {
      if (log2 == 1) return visit_steps<1, kStates>(block, of_spans, first_key, ahead, visit);
      visit_steps<2, kStates>(block, of_spans, first_key, ahead, visit);
    }
  }

  // Spans::states_of a listed step's tile.
  __device__ __forceinline__ int states_of(const Step& step, int tile) const {
    return __shfl_sync(~0u, step.boxes.states, step.lane_of(tile));
  }

  // Where the boxes of a step lie. By all lanes, before the step's place is free: copies follow at once then.
  struct Pages {
    int of[Traits::kTiles][kMostBoxes];
  };
  __device__ __forceinline__ Pages pages_of(const Step& step) const {
    Pages pages{};
    if constexpr (Traits::kPaged)
#pragma unroll
      for (int tile = 0; tile < Traits::kTiles; ++tile)
#pragma unroll
        for (int i = 0; i < kMostBoxes; ++i)
          if (i < 1 << step.boxes_log2) pages.of[tile][i] = __shfl_sync(~0u, step.boxes.page, step.lane_of(tile) + i);
    return pages;
  }

  // Keys or values, by one lane: of lanes that copy what they looked up the assembler makes a loop that takes longer
  // than a step's products.
  __device__ __forceinline__ void copy(const Step& step, const Pages& pages, const Place& first_key, u32 target,
                                       const TensorMap& map, u32 barrier) const {
    const int box_keys = 64 >> step.boxes_log2;
#pragma unroll
    for (int tile = 0; tile < Traits::kTiles; ++tile) {
      const u32 to = target + tile * (64 * kRowBytes);
      const int key = step.keys[tile];
      if constexpr (!Traits::kPaged) {
        // Rows that the tensor does not have are zeros: so is a tile behind the item's last key, beside one that is
        // not.
        const bool behind = Traits::kTiles > 1 && key >= step.end;
        copy_box(first_key, behind ? 1 << 30 : first_key.row + key, to, map, barrier);
      } else {
        const int in_page = (1 << p.pages.shift) - 1;
#pragma unroll
        for (int i = 0; i < kMostBoxes; ++i)
          if (i < 1 << step.boxes_log2)
            copy_box({0, 0, 0, first_key.head, pages.of[tile][i]}, (key + i * box_keys) & in_page,
                     to + i * box_keys * kRowBytes, map, barrier);
      }
    }
  }

 private:
  __device__ __forceinline__ int boxes_log2() const {  // of a tile
    if constexpr (Traits::kPaged) return 6 - p.pages.copied_log2;
    else return 0;
  }

  template <int kBoxesLog2, bool kStates, class Visit>
  __device__ __forceinline__ void visit_steps(const RowBlock& block, int of_spans, const Place& first_key, Box ahead,
                                              const Visit& visit) const {
    constexpr int kLookedAt = 32 >> (kBoxesLog2 + kTilesLog2);
    const int listed = block.steps - block.full_steps;
    // Two loops: of one the assembler makes every step wait for what the look before it reads.
    for (int from = 0; from < block.steps; from += kLookedAt) {
      const Box boxes = ahead;
      const int end = min(from + kLookedAt, block.steps);
      for (int n = from; n < end; ++n) {
        Step step{kBoxesLog2, {}, boxes, (n - from) << (kBoxesLog2 + kTilesLog2), n < listed, block.keys};
#pragma unroll
        for (int tile = 0; tile < Traits::kTiles; ++tile)
          step.keys[tile] = __shfl_sync(~0u, boxes.tile_key, step.lane_of(tile));
        visit(step);
        // Behind a step's copies: its place in the ring must not wait for the look.
        if (n == from && end < block.steps) ahead = boxes_from<kStates>(block, of_spans, first_key, end);
      }
    }
  }

  // Keys behind the item's last one are zeros, and their pages are not looked up.
  __device__ __forceinline__ Box box_of_lane(const RowBlock& block, const SpanTiles& tiles, const Place& first_key,
                                             int step) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    Box box{tiles.key((step << kTilesLog2) + (lane >> boxes_log2()), block.keys), 0, kNoPage};
    if constexpr (Traits::kPaged) {
      const int within = (lane & ((1 << boxes_log2()) - 1)) << p.pages.copied_log2, key = box.tile_key + within;
      if (key < block.keys)
        box.page = __ldg(p.pages.table + first_key.item * p.pages.item_stride + (key >> p.pages.shift));
    }
    return box;
  }

  static __device__ __forceinline__ void copy_box(Place at, int row, u32 target, const TensorMap& map, u32 barrier) {
    at.row = row;
#pragma unroll
    for (int box = 0; box < Traits::kBoxes; ++box) {
      at.column = box * kBoxColumns;
      load_box(target + box * (Traits::kKeys * kRowBytes), map, at, barrier);
    }
  }
};

}  // namespace stof::cuda
