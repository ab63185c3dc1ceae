// SPDX-License-Identifier: Apache-2.0
// Masked attention of few queries over few keys, in rows or in pages: what decode_attention.cuh does, where no CTA has
// so many keys that the memory counts, for masks that allow each row a prefix and one range of keys.
#pragma once
#include "kernels/cuda/decode_tasks.cuh"
#include "kernels/cuda/few_keys.cuh"

namespace stof::cuda {

// Of a row of a CTA: where it lies, and what it sees of the item's keys.
struct FewKeysRow {
  int head, query;  // the head among those of the key head
  int prefix, begin, end;
};

// Which keys the rows of a CTA see, as one sequence: the longest prefix, and a range behind it that has all of theirs.
struct FewKeys {
  const FewKeysParams& p;
  const RowItem& item;
  const unsigned short *k, *v;  // of the item's key head, in its first page
  int length, first_row, rows;
  int prefix, range, count;
  FewKeysRow own;  // of the row that lane % 16 is of; without keys where there is none

  __device__ __forceinline__ FewKeys(const FewKeysParams& params, const RowItem& of, int kv_head, int chunk, int most)
      : p(params), item(of) {
    k = static_cast<const unsigned short*>(p.k) + item.k + kv_head * p.k_stride.head;
    v = static_cast<const unsigned short*>(p.v) + item.v + kv_head * p.v_stride.head;
    length = p.key_lengths ? min(max(p.key_lengths[item.place], 0), item.keys) : item.keys;
    first_row = chunk * most;
    rows = min(max(p.heads_per_kv * item.queries - first_row, 0), most);
    own = row_of(static_cast<int>(threadIdx.x) % 16);
    prefix = __reduce_max_sync(~0u, own.prefix);
    const bool has_range = own.begin < own.end;
    range = max(__reduce_min_sync(~0u, has_range ? own.begin : length), prefix);
    count = prefix + max(__reduce_max_sync(~0u, has_range ? own.end : 0) - range, 0);
  }
  __device__ __forceinline__ int position(int index) const { return index < prefix ? index : index - prefix + range; }
  __device__ __forceinline__ KeyPlace place(int index) const {
    const bool there = index < count;
    const int key = there ? position(index) : 0;
    if (p.pages.table == nullptr) return {k + key * p.k_stride.row, v + key * p.v_stride.row, there};
    if (!there) return {k, v, false};
    const long long page = p.pages.table[item.place * p.pages.item_stride + (key >> p.pages.shift)];
    const int row = key & ((1 << p.pages.shift) - 1);
    return {k + page * p.pages.k_stride + row * p.k_stride.row, v + page * p.pages.v_stride + row * p.v_stride.row,
            true};
  }
  // Of a lane's e-th row of a slab, from whoever knows it.
  __device__ __forceinline__ KeySpan span_of(int slab, int e) const {
    const int lane = 8 * slab + static_cast<int>(threadIdx.x) % 4 * 2 + e;
    return {__shfl_sync(~0u, own.prefix, lane), __shfl_sync(~0u, own.begin, lane), __shfl_sync(~0u, own.end, lane), 0};
  }

 private:
  __device__ __forceinline__ FewKeysRow row_of(int row) const {
    if (row >= rows) return {0, 0, 0, 0, 0};
    const int at = first_row + row, head = quick_quotient(at, item.queries), query = at - head * item.queries;
    const int place = length - item.queries + query - p.first_position;
    if (length == 0 || place < 0 || place >= p.positions) return {head, query, 0, 0, 0};
    const int4 span = __ldg(reinterpret_cast<const int4*>(p.spans) + place);
    return {head, query, min(span.x, length), min(span.y, length), min(span.z, length)};
  }
};

// Grid: {ranks, key heads * chunks, items}, the ranks being a cluster. Shared memory: groups of all warps, rows of q,
// results. Needs: all addresses and strides at multiples of 16 bytes, a head_dim that is a multiple of 8, positions of
// the rows among those of the spans.
template <class Traits>
__global__ void __launch_bounds__(FewKeysGrid::kThreads, Traits::kCtas)
    few_keys_attention_kernel(const __grid_constant__ FewKeysParams p) {
  using Grid = FewKeysGrid;
  using Groups = KeyGroups<Traits, FewKeys>;
  constexpr int kHeadDim = Traits::kHeadDim, kPieces = kHeadDim / 8;
  extern __shared__ __align__(1024) unsigned char raw[];
  __shared__ float2 stats[Grid::kWarps][Traits::kRows], all_stats[Traits::kRows];
  const int warp = uniform(static_cast<int>(threadIdx.x) / 32), lane = static_cast<int>(threadIdx.x) % 32;
  const int kv_head = static_cast<int>(blockIdx.y) / p.chunks, chunk = static_cast<int>(blockIdx.y) % p.chunks;
  if (p.key_lengths || p.item_list) wait_for_inputs();  // the plan's spans may be read before
  const RowItem& item = p.item_list ? p.item_list[blockIdx.z] : p.items[blockIdx.z];
  const FewKeys keys(p, item, kv_head, chunk, Traits::kRows);
  const KeyCta<Traits> cta{.stats = stats,
                           .all_stats = all_stats,
                           .memory = raw,
                           .stages = p.stages,
                           .warp_bytes = p.warp_bytes,
                           .scale_log2 = p.scale_log2,
                           .rank = static_cast<int>(blockIdx.x),
                           .ranks = static_cast<int>(gridDim.x),
                           .groups = (keys.count + Grid::kGroup - 1) / Grid::kGroup,
                           .rows = keys.rows};
  const Groups groups{keys, shared_address(cta.part(warp)), lane, p.head_dim};
  KeySpan spans[Traits::kSlabs][2];
#pragma unroll
  for (int slab = 0; slab < Traits::kSlabs; ++slab)
#pragma unroll
    for (int e = 0; e < 2; ++e) spans[slab][e] = keys.span_of(slab, e);
  // Of a row in global memory, of q or of the result.
  const auto offset_of = [&](const RowStride& stride, int row) {
    const int at = keys.first_row + row, head = quick_quotient(at, item.queries);
    return (kv_head * p.heads_per_kv + head) * stride.head + (at - head * item.queries) * stride.row;
  };
  wait_for_inputs();
  allow_overlap();
  for (int i = static_cast<int>(threadIdx.x); i < Traits::kRows * kPieces; i += Grid::kThreads) {
    const int row = i / kPieces, column = i % kPieces * 8;
    const bool there = row < keys.rows && column < p.head_dim;
    const auto* const q = static_cast<const unsigned short*>(p.q) + item.q;
    copy_piece(shared_address(cta.queries()) + SwizzledRows<kHeadDim>::offset(row, i % kPieces),
               q + (there ? offset_of(p.q_stride, row) + column : 0), there);
  }
  commit_copies();
  cta.ask(groups, warp);
  if (p.stages == 1) wait_for_copies_but<1>();
  else wait_for_copies_but<2>();
  __syncthreads();
  KeySums<Traits> sums(lane, p.scale_log2, p.cap_log2);
  cta.add_groups(
      groups, sums, warp, [](int, int) {},
      [&](int group) {
        return [&, first = group * Grid::kGroup](int slab, int e, int key) {
          const KeySpan& span = spans[slab][e];
          const int index = first + key, position = keys.position(index);
          return index < keys.count && (position < span.prefix_end || (position >= span.begin && position < span.end));
        };
      });
  __syncthreads();
  cta.give(reinterpret_cast<float4*>(cta.queries() + Traits::kRows * kHeadDim),
           [&](int row, int column, const KeyPart& part) {
             if (column < p.head_dim)
               *reinterpret_cast<uint2*>(static_cast<unsigned short*>(p.out) + item.out + offset_of(p.out_stride, row) +
                                         column) = part.packed<typename Traits::Element>();
             if (p.lse && column == 0) {
               constexpr float kLn2 = 0.6931471805599453f;
               p.lse[item.lse + offset_of(p.lse_stride, row)] =
                   part.is_empty() ? kMinusInfinity : (part.maximum * p.scale_log2 + log2_approx(part.sum)) * kLn2;
             }
           });
}

}  // namespace stof::cuda
