// SPDX-License-Identifier: Apache-2.0
// Attention of a decoder's step: one token for each text, and in one launch with it all that stands between two
// products: heads are divided by their root mean square, turned, kept, and attended to. Groups of keys are on their way
// before the kernel in front has ended: that one makes the token, and nothing of the texts before it.
#pragma once
#include "kernels/cuda/few_keys.cuh"
#include "kernels/cuda/token_row.cuh"

namespace stof::cuda {

// Grid: {ranks, key heads, texts}, the ranks being a cluster. Shared memory: groups of all warps; 8 rows of q, k and v
// of the token; results. Needs: at most 8 heads of q for one of k, all addresses at multiples of 16 bytes. What is read
// before the wait has been written by kernels in front of the one in front, which has waited for these before it let
// this one begin.
template <class Traits>
__global__ void __launch_bounds__(FewKeysGrid::kThreads, Traits::kCtas)
    token_attention_kernel(const __grid_constant__ TokenAttentionParams p) {
  using Grid = FewKeysGrid;
  using Groups = KeyGroups<Traits, TokenKeys<Traits>>;
  constexpr int kHeadDim = Traits::kHeadDim;
  extern __shared__ __align__(1024) unsigned char raw[];
  __shared__ float2 stats[Grid::kWarps][Traits::kRows], all_stats[Traits::kRows];
  const int warp = uniform(static_cast<int>(threadIdx.x) / 32), lane = static_cast<int>(threadIdx.x) % 32;
  const TokenPlace place{static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.y), p.heads / p.kv_heads};
  const TokenKeys<Traits> keys(p, place);
  const KeyCta<Traits> cta{.stats = stats,
                           .all_stats = all_stats,
                           .memory = raw,
                           .stages = p.stages,
                           .warp_bytes = p.warp_bytes,
                           .scale_log2 = p.scale_log2,
                           .rank = static_cast<int>(blockIdx.x),
                           .ranks = static_cast<int>(gridDim.x),
                           .groups = (keys.count + Grid::kGroup - 1) / Grid::kGroup,
                           .rows = place.group};
  static_assert(Traits::kPitch * Traits::kRows * 4 <= Groups::kBytes, "a warp leaves its sums where its groups were");
  const Groups groups{keys, shared_address(cta.part(warp)), lane, kHeadDim};
  cta.ask(groups, warp);
  TokenRow<Traits> row(p, place, cta.queries());
  row.ask_for_constants();
  follow_previous_grid();
  row.bring(cta.rank == 0);
  __syncthreads();
  KeySums<Traits> sums(lane, p.scale_log2, 0.f);
  cta.add_groups(
      groups, sums, warp, [&](int group, int at) { row.add_own(groups, group, at); },
      [&](int group) { return [left = keys.count - group * Grid::kGroup](int key) { return key < left; }; });
  __syncthreads();
  auto* const out = static_cast<unsigned short*>(p.out) +
                    (static_cast<long long>(place.text) * p.heads + place.kv_head * place.group) * kHeadDim;
  cta.give(reinterpret_cast<float4*>(cta.queries() + (Traits::kRows + 2) * kHeadDim),
           [&](int head, int column, const KeyPart& part) {
             *reinterpret_cast<uint2*>(out + head * kHeadDim + column) = part.packed<typename Traits::Element>();
           });
}

}  // namespace stof::cuda
