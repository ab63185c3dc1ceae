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
    int keys[Traits::kTiles];  // the first one of each tile
    Box boxes;                 // the lane's, and those of the step from lane `first` on
    int first;
    bool listed;  // tiles have states
    int end;      // the item's keys
  };

  // visit(step) for each. One look finds the boxes of as many steps as a warp has lanes for, and is ahead by as many:
  // page tables are read meanwhile. of_spans: Spans::mine; kStates: boxes should say what a listed step's tiles are.
  template <bool kStates, class Visit>
  __device__ __forceinline__ void for_each_span_step(const RowBlock& block, int of_spans, const Place& first_key,
                                                     const Visit& visit) const {
    const int of_step_log2 = boxes_log2() + kTilesLog2, looked_at = 32 >> of_step_log2;
    const int listed = block.steps - block.full_steps;
    const auto boxes_from = [&](int n) {
      const SpanTiles tiles = Spans::tiles_of(of_spans);
      Box box = box_of_lane(block, tiles, first_key, block.first_step + n);
      if (kStates && n < listed) box.states = Spans::states_of(of_spans, tiles, box.tile_key);
      return box;
    };
    Box boxes = boxes_from(0), ahead = boxes;
    for (int n = 0; n < block.steps; ++n) {
      const int at = n & (looked_at - 1);
      if (at == 0) boxes = ahead;
      Step step{{}, boxes, at << of_step_log2, n < listed, block.keys};
#pragma unroll
      for (int tile = 0; tile < Traits::kTiles; ++tile)
        step.keys[tile] = __shfl_sync(~0u, boxes.tile_key, lane_of(step, tile));
      visit(step);
      // Behind a step's copies: its place in the ring must not wait for the look.
      if (at == 0 && n + looked_at < block.steps) ahead = boxes_from(n + looked_at);
    }
  }

  // Spans::states_of a listed step's tile.
  __device__ __forceinline__ int states_of(const Step& step, int tile) const {
    return __shfl_sync(~0u, step.boxes.states, lane_of(step, tile));
  }

  // Where the boxes of a step lie. By all lanes, before the step's place is free: copies follow at once then.
  struct Pages {
    int of[Traits::kTiles][kMostBoxes];
  };
  __device__ __forceinline__ Pages pages_of(const Step& step) const {
    if constexpr (!Traits::kPaged) {
      return {};
    } else {
      Pages pages;
      const int boxes = 1 << boxes_log2();
#pragma unroll
      for (int tile = 0; tile < Traits::kTiles; ++tile)
#pragma unroll
        for (int i = 0; i < kMostBoxes; ++i)
          if (i < boxes) pages.of[tile][i] = __shfl_sync(~0u, step.boxes.page, lane_of(step, tile) + i);
      return pages;
    }
  }

  // Keys or values, by one lane: of lanes that copy what they looked up the assembler makes a loop that takes longer
  // than a step's products.
  __device__ __forceinline__ void copy(const Step& step, const Pages& pages, const Place& first_key, u32 target,
                                       const TensorMap& map, u32 barrier) const {
#pragma unroll
    for (int tile = 0; tile < Traits::kTiles; ++tile) {
      const u32 to = target + tile * (64 * kRowBytes);
      if constexpr (Traits::kPaged) copy_pages(step.keys[tile], pages.of[tile], first_key.head, to, map, barrier);
      else copy_box(first_key, row_of(step, tile, first_key), to, map, barrier);
    }
  }

 private:
  __device__ __forceinline__ int boxes_log2() const {  // of a tile
    if constexpr (Traits::kPaged) return 6 - p.pages.copied_log2;
    else return 0;
  }

  __device__ __forceinline__ int lane_of(const Step& step, int tile) const {
    return step.first + (tile << boxes_log2());
  }

  // Rows that the tensor does not have are zeros: so is a tile behind the item's last key, beside one that is not.
  static __device__ __forceinline__ int row_of(const Step& step, int tile, const Place& first_key) {
    return Traits::kTiles > 1 && step.keys[tile] >= step.end ? 1 << 30 : first_key.row + step.keys[tile];
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

  __device__ __forceinline__ void copy_pages(int key, const int (&pages)[kMostBoxes], int head, u32 target,
                                             const TensorMap& map, u32 barrier) const {
    const int boxes = 1 << boxes_log2(), in_page = (1 << p.pages.shift) - 1;
    const auto copy = [&](int i) {
      copy_box({0, 0, 0, head, pages[i]}, (key + (i << p.pages.copied_log2)) & in_page,
               target + (kRowBytes * i << p.pages.copied_log2), map, barrier);
    };
    // Branches: copies behind predicates of their own take 5 % longer with pages of 16.
    copy(0);
    if (boxes == 1) return;
    copy(1);
    if (boxes == 2) return;
    copy(2), copy(3);
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
