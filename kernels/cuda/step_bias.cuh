// SPDX-License-Identifier: Apache-2.0
// The bias of a step of stream_attention, in forms for calls with one; in others it is nothing.
#pragma once
#include "kernels/cuda/score_bias.cuh"
#include "kernels/cuda/stream_traits.cuh"

namespace stof::cuda {

// Of a warp's rows of a row block.
template <class Traits>
struct RowsBias {
  int of_head, position;  // position: of the first row

  __device__ __forceinline__ void find(const typename Traits::Params& p, const RowBlock& block, int row) {
    if constexpr (Traits::kBiased) {
      of_head = bias_of_head(p.bias, block.head);
      position = block.row + row + block.keys - block.rows;
    }
  }
};

template <class Traits>
struct StepBias {
  TileBias tiles[Traits::kBiased ? Traits::kTiles : 1];

  // steps: of each tile its first key, and what else the loader says of it.
  __device__ __forceinline__ void load(const typename Traits::Params& p, const RowsBias<Traits>& rows,
                                       const int (&steps)[Traits::kTiles][1 + Traits::kParts], int lane) {
    if constexpr (Traits::kBiased)
#pragma unroll
      for (int tile = 0; tile < Traits::kTiles; ++tile)
        tiles[tile].load(p.bias, rows.of_head, rows.position - (steps[tile][0] & TileMark::kKey), lane);
  }

  __device__ __forceinline__ void add_to(float* scores, const typename Traits::Params& p) const {
    if constexpr (Traits::kBiased)
#pragma unroll
      for (int tile = 0; tile < Traits::kTiles; ++tile) tiles[tile].add_to(scores + 32 * tile, p.bias.factor);
  }
};

}  // namespace stof::cuda
