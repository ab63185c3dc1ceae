// SPDX-License-Identifier: Apache-2.0
// The steps of a row block that goes by the spans of its rows: which keys each brings, and the pages that these lie in.
#pragma once
#include "kernels/cuda/stream_steps.cuh"

namespace stof::cuda {

template <class Traits>
struct SpanSteps : StreamSteps<Traits> {
  using Base = StreamSteps<Traits>;
  using Base::p;
  static constexpr int kTilesLog2 = Traits::kTiles - 1;
  static_assert(Traits::kTiles <= 2);
  static constexpr int kNoPage = 1 << 30;  // behind the pool, so that zeros come

  // A lane's box of keys, of a tile of one of the coming steps: what a copy brings of a page, or a whole tile.
  struct Box {
    int tile_key, page;
  };
  struct Step {
    int keys[Traits::kTiles];  // the first one of each tile
    Box boxes;                 // the lane's, and those of the step from lane `first` on
    int first;
    int end;  // the item's keys
  };

  // visit(step) for each. One look finds the boxes of as many steps as a warp has lanes for, and is ahead by as many:
  // page tables are read meanwhile.
  template <class Visit>
  __device__ __forceinline__ void for_each_span_step(const RowBlock& block, const SpanTiles& tiles,
                                                     const Place& first_key, const Visit& visit) const {
    const int of_step_log2 = boxes_log2() + kTilesLog2, looked_at = 32 >> of_step_log2;
    Box boxes, ahead = boxes_from(block, tiles, first_key, block.first_step);
    for (int n = 0; n < block.steps; ++n) {
      const int at = n & (looked_at - 1);
      if (at == 0) {
        boxes = ahead;
        if (n + looked_at < block.steps) ahead = boxes_from(block, tiles, first_key, block.first_step + n + looked_at);
      }
      Step step{{}, boxes, at << of_step_log2, block.keys};
#pragma unroll
      for (int tile = 0; tile < Traits::kTiles; ++tile)
        step.keys[tile] = __shfl_sync(~0u, boxes.tile_key, step.first + (tile << boxes_log2()));
      visit(step);
    }
  }

  // Keys or values, by one lane: of lanes that copy what they looked up the assembler makes a loop that takes longer
  // than a step's products.
  __device__ __forceinline__ void copy(const Step& step, const Place& first_key, u32 target, const TensorMap& map,
                                       u32 barrier) const {
#pragma unroll
    for (int tile = 0; tile < Traits::kTiles; ++tile) {
      const u32 to = target + tile * (64 * kRowBytes);
      if constexpr (Traits::kPaged) copy_pages(step, tile, first_key.head, to, map, barrier);
      else if (elected()) copy_box(first_key, row_of(step, tile, first_key), to, map, barrier);
    }
  }

 private:
  __device__ __forceinline__ int boxes_log2() const {  // of a tile
    if constexpr (Traits::kPaged) return 6 - p.pages.copied_log2;
    else return 0;
  }

  // Rows that the tensor does not have are zeros: so is a tile behind the item's last key, beside one that is not.
  static __device__ __forceinline__ int row_of(const Step& step, int tile, const Place& first_key) {
    return Traits::kTiles > 1 && step.keys[tile] >= step.end ? 1 << 30 : first_key.row + step.keys[tile];
  }

  // Keys behind the item's last one are zeros, and their pages are not looked up.
  __device__ __forceinline__ Box boxes_from(const RowBlock& block, const SpanTiles& tiles, const Place& first_key,
                                            int step) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    Box box{tiles.key((step << kTilesLog2) + (lane >> boxes_log2()), block.keys), kNoPage};
    if constexpr (Traits::kPaged) {
      const int within = (lane & ((1 << boxes_log2()) - 1)) << p.pages.copied_log2, key = box.tile_key + within;
      if (key < block.keys)
        box.page = __ldg(p.pages.table + first_key.item * p.pages.item_stride + (key >> p.pages.shift));
    }
    return box;
  }

  __device__ __forceinline__ void copy_pages(const Step& step, int tile, int head, u32 target, const TensorMap& map,
                                             u32 barrier) const {
    const int boxes = 1 << boxes_log2(), from = step.first + (tile << boxes_log2()), key = step.keys[tile];
    if (boxes == 1) return copy_pages<1>(step, from, key, head, target, map, barrier);
    if (boxes == 4) return copy_pages<4>(step, from, key, head, target, map, barrier);
#pragma unroll 1
    for (int box = 0; box < boxes; ++box)
      copy_pages<1>(step, from + box, key + (box << p.pages.copied_log2), head,
                    target + (kRowBytes * box << p.pages.copied_log2), map, barrier);
  }
  template <int kCount>
  __device__ __forceinline__ void copy_pages(const Step& step, int from, int key, int head, u32 target,
                                             const TensorMap& map, u32 barrier) const {
    int pages[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) pages[i] = __shfl_sync(~0u, step.boxes.page, from + i);
    if (!elected()) return;
    const int in_page = (1 << p.pages.shift) - 1;
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      copy_box({0, 0, 0, head, pages[i]}, (key + (i << p.pages.copied_log2)) & in_page,
               target + (kRowBytes * i << p.pages.copied_log2), map, barrier);
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
