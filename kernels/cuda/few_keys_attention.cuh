// SPDX-License-Identifier: Apache-2.0
// Masked attention of one query over few keys, in rows or in pages: what decode_attention.cuh does, where no CTA has so
// many keys that the memory counts, for masks that allow each row a prefix and one range of keys.
#pragma once
#include "kernels/cuda/decode_tasks.cuh"
#include "kernels/cuda/few_keys.cuh"

namespace stof::cuda {

// Which keys an item's query sees, as one sequence: a prefix, and a range behind it.
struct FewKeys {
  const FewKeysParams& p;
  const int* pages;             // of the item
  const unsigned short *k, *v;  // of the item's key head, in its first page
  int prefix, range, count;

  __device__ __forceinline__ FewKeys(const FewKeysParams& params, const RowItem& item, int kv_head)
      : p(params), pages(p.pages.table == nullptr ? nullptr : p.pages.table + item.place * p.pages.item_stride) {
    k = static_cast<const unsigned short*>(p.k) + item.k + kv_head * p.k_stride.head;
    v = static_cast<const unsigned short*>(p.v) + item.v + kv_head * p.v_stride.head;
    const int length = p.key_lengths ? min(max(p.key_lengths[item.place], 0), item.keys) : item.keys;
    const int place = length - 1 - p.first_position;
    prefix = range = count = 0;
    if (length == 0 || item.queries == 0 || place < 0 || place >= p.positions) return;
    const int4 span = __ldg(reinterpret_cast<const int4*>(p.spans) + place);
    prefix = min(span.x, length), range = span.y;
    count = prefix + max(min(span.z, length) - range, 0);
  }
  __device__ __forceinline__ KeyPlace place(int index) const {
    const bool there = index < count;
    const int key = !there ? 0 : index < prefix ? index : index - prefix + range;
    if (pages == nullptr) return {k + key * p.k_stride.row, v + key * p.v_stride.row, there};
    if (!there) return {k, v, false};
    const long long page = pages[key >> p.pages.shift];
    const int row = key & ((1 << p.pages.shift) - 1);
    return {k + page * p.pages.k_stride + row * p.k_stride.row, v + page * p.pages.v_stride + row * p.v_stride.row,
            true};
  }
};

// The heads of q for one of k, as rows; zeros behind the last one, and behind its last column.
template <class Traits>
__device__ __forceinline__ void load_few_queries(const FewKeysParams& p, const unsigned short* q, int rows,
                                                 u32 shared) {
  constexpr int kPieces = Traits::kHeadDim / 8;
  for (int i = static_cast<int>(threadIdx.x); i < Traits::kRows * kPieces; i += FewKeysGrid::kThreads) {
    const int row = i / kPieces, column = i % kPieces * 8;
    const bool there = row < rows && column < p.head_dim;
    copy_piece(shared + SwizzledRows<Traits::kHeadDim>::offset(row, i % kPieces),
               q + (there ? row * p.q_stride.head + column : 0), there);
  }
  commit_copies();
}

// Four columns of a head's result, and with the first ones its logarithm.
template <class Traits>
__device__ __forceinline__ void write_few(const FewKeysParams& p, const RowItem& item, int head, int column,
                                          const KeyPart& part) {
  constexpr float kLn2 = 0.6931471805599453f;
  if (column < p.head_dim)
    *reinterpret_cast<uint2*>(static_cast<unsigned short*>(p.out) + item.out + head * p.out_stride.head + column) =
        part.packed<typename Traits::Element>();
  if (p.lse && column == 0)
    p.lse[item.lse + head * p.lse_stride.head] =
        part.is_empty() ? kMinusInfinity : (part.maximum * p.scale_log2 + log2_approx(part.sum)) * kLn2;
}

// Grid: {ranks, key heads, items}, the ranks being a cluster. Shared memory: groups of all warps, rows of q, results.
// Needs: at most kRows heads of q for one of k, all addresses and strides at multiples of 16 bytes, a head_dim that is
// a multiple of 8, items of one query or none.
template <class Traits>
__global__ void __launch_bounds__(FewKeysGrid::kThreads, Traits::kCtas)
    few_keys_attention_kernel(const __grid_constant__ FewKeysParams p) {
  using Grid = FewKeysGrid;
  extern __shared__ __align__(1024) unsigned char raw[];
  __shared__ float2 stats[Grid::kWarps][Traits::kRows], all_stats[Traits::kRows];
  const int warp = uniform(static_cast<int>(threadIdx.x) / 32), lane = static_cast<int>(threadIdx.x) % 32;
  const int kv_head = static_cast<int>(blockIdx.y), first_head = kv_head * p.heads_per_kv;
  wait_for_inputs();
  allow_overlap();
  const RowItem& item = p.item_list ? p.item_list[blockIdx.z] : p.items[blockIdx.z];
  const FewKeys keys(p, item, kv_head);
  const KeyCta<Traits> cta{.stats = stats,
                           .all_stats = all_stats,
                           .memory = raw,
                           .stages = p.stages,
                           .warp_bytes = p.warp_bytes,
                           .scale_log2 = p.scale_log2,
                           .rank = static_cast<int>(blockIdx.x),
                           .ranks = static_cast<int>(gridDim.x),
                           .groups = (keys.count + Grid::kGroup - 1) / Grid::kGroup,
                           .rows = item.queries > 0 ? p.heads_per_kv : 0};
  const KeyGroups<Traits, FewKeys> groups{keys, shared_address(cta.part(warp)), lane, p.head_dim};
  load_few_queries<Traits>(p, static_cast<const unsigned short*>(p.q) + item.q + first_head * p.q_stride.head, cta.rows,
                           shared_address(cta.queries()));
  cta.ask(groups, warp);
  if (p.stages == 1) wait_for_copies_but<1>();
  else wait_for_copies_but<2>();
  __syncthreads();
  KeySums<Traits> sums(lane, p.scale_log2, p.cap_log2);
  cta.add_groups(
      groups, sums, warp, [](int, int) {},
      [&](int group) { return [left = keys.count - group * Grid::kGroup](int key) { return key < left; }; });
  __syncthreads();
  cta.give(
      reinterpret_cast<float4*>(cta.queries() + Traits::kRows * Traits::kHeadDim),
      [&](int row, int column, const KeyPart& part) { write_few<Traits>(p, item, first_head + row, column, part); });
}

}  // namespace stof::cuda
