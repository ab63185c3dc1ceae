// SPDX-License-Identifier: Apache-2.0
// Masked attention row by row, in fp32, for every storage, size and alignment: what runs where no other kernel can.
#pragma once
#include "kernels/cuda/draft_trees.cuh"
#include "kernels/cuda/item_lists.cuh"
#include "kernels/cuda/score_bias.cuh"
#include "kernels/cuda/storage.cuh"
#include "kernels/shared/row_lists.h"

namespace stof::cuda {

constexpr float kNoScore = __builtin_bit_cast(float, 0xff800000u);  // -inf; NVRTC has no huge_valf
constexpr int kRowWarps = 8;                                        // of a CTA, a row each

// One row, by one warp: lane l scores keys l and l + 32 of an entry, and holds columns l, l + 32, ... of the result.
template <class Storage>
struct RowWarp {
  using Stored = typename Storage::Stored;
  static constexpr int kColumns = 8;  // a lane's share of 256
  const RowAttentionParams& p;
  const RowItem& item;
  const float* q;  // [head_dim], shared memory
  const Stored *k, *v;
  int bias, position, lane;  // bias: of the head, where there is one
  float maximum = kNoScore, sum = 0.f;
  bool any = false;
  float out[kColumns] = {};

  // From the first key of the item to this one, in elements.
  __device__ __forceinline__ long long place_of(int key, long long row_stride, long long page_stride) const {
    const PageTable& pages = p.pages;
    if (pages.table == nullptr) return key * row_stride;
    const int page = pages.table[item.place * pages.item_stride + (key >> pages.shift)];
    return page * page_stride + (key & ((1 << pages.shift) - 1)) * row_stride;
  }

  __device__ __forceinline__ float score(int key) const {
    const Stored* row = k + place_of(key, p.k_stride.row, p.pages.k_stride);
    float dot = 0.f;
#pragma unroll 4
    for (int c = 0; c < p.head_dim; ++c) dot = __fmaf_rn(q[c], Storage::load(row[c]), dot);
    const float scaled = dot * p.scale;
    const float capped = p.softcap > 0.f ? p.softcap * tanhf(scaled / p.softcap) : scaled;
    if (p.bias.values == nullptr) return capped;
    return __fmaf_rn(bias_at(p.bias, bias, position - key), p.bias.factor, capped);
  }

  // 32 keys from `first`; bit l of `allowed` for key first + l.
  __device__ __forceinline__ void add_keys(int first, unsigned allowed) {
    if (allowed == 0) return;
    any = true;
    const bool mine = allowed >> lane & 1;
    const float mine_score = mine ? score(first + lane) : kNoScore;
    float highest = mine_score;
#pragma unroll
    for (int step = 16; step; step >>= 1) highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, step));
    highest = fmaxf(highest, maximum);
    const float origin = highest == kNoScore ? 0.f : highest;
    const float factor = maximum == kNoScore ? 0.f : expf(maximum - origin);
    const float weight = mine ? expf(mine_score - origin) : 0.f;
    maximum = highest;
    sum = sum * factor + weight;  // of this lane's keys
#pragma unroll
    for (int i = 0; i < kColumns; ++i) out[i] *= factor;
#pragma unroll 2
    for (unsigned left = allowed; left; left &= left - 1) {
      const int key = __ffs(static_cast<int>(left)) - 1;
      const float w = __shfl_sync(~0u, weight, key);
      const Stored* row = v + place_of(first + key, p.v_stride.row, p.pages.v_stride);
#pragma unroll
      for (int i = 0; i < kColumns; ++i)
        if (lane + 32 * i < p.head_dim) out[i] = __fmaf_rn(w, Storage::load(row[lane + 32 * i]), out[i]);
    }
  }

  // The bits of keys [start, start + 64) that exist.
  __device__ __forceinline__ unsigned long long existing(int start) const {
    const int count = item.keys - start;
    return count >= 64 ? ~0ull : count <= 0 ? 0ull : (1ull << count) - 1;
  }

  __device__ __forceinline__ void attend(int row, int group) {
    if (item.keys == 0) return;
    const RowLayoutView& layout = p.layout;
    const int before = item.keys - item.queries, at = row + before - layout.first_position;
    const int block = at / layout.block_q, within = at - block * layout.block_q;
    const long long* begin = layout.row_begin + static_cast<long long>(group) * (layout.row_blocks + 1) + block;
#pragma unroll 1
    for (long long e = begin[0]; e < begin[1]; ++e) {
      const RowEntry entry = layout.entries[e];
      unsigned long long bits = existing(entry.key_start);
      if (entry.bitmap >= 0) bits &= layout.bitmaps[static_cast<long long>(entry.bitmap) * layout.block_q + within];
      if (const int of_queries = entry.key_start - before; has_tree(p.trees, item.queries) && of_queries > -64)
        bits &= wide_tree_bits(p.trees, item.place, row, of_queries);
      add_keys(entry.key_start, static_cast<unsigned>(bits));
      add_keys(entry.key_start + 32, static_cast<unsigned>(bits >> 32));
    }
  }

  __device__ __forceinline__ void finish(Stored* to, float* lse) {
#pragma unroll
    for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
#pragma unroll
    for (int i = 0; i < kColumns; ++i)
      if (lane + 32 * i < p.head_dim) to[lane + 32 * i] = Storage::store(any ? __fdividef(out[i], sum) : 0.f);
    if (lse != nullptr && lane == 0) *lse = any ? maximum + logf(sum) : kNoScore;
  }
};

__device__ __forceinline__ RowItem row_item(const RowAttentionParams& p, int item) {
  if (p.lengths == nullptr) return p.items[item];
  const long long start = p.starts[item];
  const int length = p.lengths[item];
  return {start * p.q_stride.row,
          start * p.k_stride.row,
          start * p.v_stride.row,
          start * p.out_stride.row,
          start * p.lse_stride.row,
          length,
          length,
          0};
}

// The rows of the CTA's item that are its own.
template <class Storage>
__device__ __forceinline__ void attend_rows(const RowAttentionParams& p, const RowItem& item) {
  using Stored = typename Storage::Stored;
  __shared__ float queries[kRowWarps][256];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int head = static_cast<int>(blockIdx.x) / p.chunks, kv_head = head / p.heads_per_kv;
  const int row = (static_cast<int>(blockIdx.x) - head * p.chunks) * kRowWarps + warp;
  if (row >= item.queries) return;
  const Stored* q = static_cast<const Stored*>(p.q) + item.q + head * p.q_stride.head + row * p.q_stride.row;
  for (int c = lane; c < p.head_dim; c += 32) queries[warp][c] = Storage::load(q[c]);
  __syncwarp();
  RowWarp<Storage> work{p,
                        item,
                        queries[warp],
                        static_cast<const Stored*>(p.k) + item.k + kv_head * p.k_stride.head,
                        static_cast<const Stored*>(p.v) + item.v + kv_head * p.v_stride.head,
                        bias_of_head(p.bias, head),
                        row + item.keys - item.queries,
                        lane};
  work.attend(row, p.layout.group_of[static_cast<long long>(item.index) * p.layout.heads + head]);
  float* lse = p.lse == nullptr ? nullptr : p.lse + item.lse + head * p.lse_stride.head + row * p.lse_stride.row;
  work.finish(static_cast<Stored*>(p.out) + item.out + head * p.out_stride.head + row * p.out_stride.row, lse);
}

// out = softmax(scale q k^T, over the allowed keys) v; rows without a key give 0 and LSE -inf.
// Grid: {chunks of kRowWarps rows of the longest item * heads, 1, items}. Needs head_dim <= 256, nothing else.
template <class Storage>
__global__ void __launch_bounds__(32 * kRowWarps, 3)
    row_attention_kernel(const __grid_constant__ RowAttentionParams p) {
  attend_rows<Storage>(p, row_item(p, static_cast<int>(blockIdx.z)));
}

// The same for items that the device lists.
template <class Storage>
__global__ void __launch_bounds__(32 * kRowWarps, 3)
    listed_row_attention_kernel(const __grid_constant__ ListedRowParams p) {
  const int item = static_cast<int>(blockIdx.z);
  attend_rows<Storage>(p.call, row_item(p.steps, numbers_of(p.lists, item), item));
}

}  // namespace stof::cuda
