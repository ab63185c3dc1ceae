// SPDX-License-Identifier: Apache-2.0
// Masked attention on tensors of any alignment, with what sm_80 has: a CTA a row block, tiles of keys and values by
// asynchronous copies, products by single warps.
#pragma once
#include "kernels/cuda/mma_steps.cuh"
#include "kernels/cuda/mma_tiles.cuh"
#include "kernels/cuda/output.cuh"
#include "kernels/cuda/score_bias.cuh"

namespace stof::cuda {

// parts: of 64 rows, in a row block. slabs: of 16 rows, a warp. stages: tiles of keys, and of values, in shared memory.
// ctas: what fits an SM. packed: for masks that another kernel arranged. paged: keys and values lie in pages.
struct MmaShape {
  int parts, slabs, stages, ctas;
  bool packed = false;
  bool paged = false;
};

template <class Element_, int kHeadDim_, MmaShape kShape>
struct MmaTraits {
  using Element = Element_;
  static constexpr int kHeadDim = kHeadDim_, kParts = kShape.parts, kSlabs = kShape.slabs, kStages = kShape.stages,
                       kCtas = kShape.ctas;
  static constexpr bool kPacked = kShape.packed, kPaged = kShape.paged;
  static constexpr int kKeys = 64, kRows = 64 * kParts, kThreads = 32 * 4 * kParts / kSlabs;
  // Otherwise its fragments are read again for every tile.
  static constexpr bool kQueriesStay = kHeadDim * kSlabs <= 128;
  using Rows = SwizzledRows<kHeadDim>;

  struct Shared {
    alignas(128) unsigned char q[kRows * Rows::kBytes];  // and in the end the output
    unsigned char k[kStages][kKeys * Rows::kBytes];
    unsigned char v[kStages][kKeys * Rows::kBytes];
  };
};

// One row block, by its CTA. Warps hold kSlabs times 16 rows: their fragments of keys and values serve all of them.
template <class Traits, class Steps>
struct MmaBlock {
  using Shared = typename Traits::Shared;
  using Element = typename Traits::Element;
  using Rows = typename Traits::Rows;
  static constexpr int kHeadDim = Traits::kHeadDim, kSlabs = Traits::kSlabs, kStages = Traits::kStages;
  Shared& shared;
  const MmaParams& p;
  const RowBlock& block;
  const Steps& steps;
  int lane, part, slab, first_row;  // slab: in its part; first_row: of the warp, in the row block

  const unsigned short *k, *v;  // key 0, or that of page 0
  const int* pages;             // of the item, where there are
  int stage = 0;
  SlabWords<kSlabs> ahead;  // of the step to come
  u32 q[Traits::kQueriesStay ? kSlabs : 1][Traits::kQueriesStay ? kHeadDim / 16 : 1][4];
  float scores[kSlabs][32], out[kSlabs][kHeadDim / 2];
  u32 weights[kSlabs][16];
  RowStats rows[kSlabs];

  __device__ __forceinline__ MmaBlock(Shared& shared, const MmaParams& p, const RowBlock& block, const Steps& steps)
      : shared(shared), p(p), block(block), steps(steps) {
    const int warp = uniform(static_cast<int>(threadIdx.x) / 32);
    lane = static_cast<int>(threadIdx.x) % 32;
    part = warp * kSlabs / 4;
    slab = warp * kSlabs % 4;
    first_row = 16 * kSlabs * warp;
    const int kv_head = block.head / p.call.shape.heads_per_kv;
    if constexpr (Traits::kPaged) {
      k = static_cast<const unsigned short*>(p.k.values) + kv_head * p.k.head_stride;
      v = static_cast<const unsigned short*>(p.v.values) + kv_head * p.v.head_stride;
      pages = p.pages.table + block.slice / p.call.shape.heads * p.pages.item_stride;
    } else {
      k = at(p.k, kv_head, block.place.key_start);
      v = at(p.v, kv_head, block.place.key_start);
    }
  }

  __device__ __forceinline__ const unsigned short* at(const AttentionInput& from, int head, int row) const {
    return static_cast<const unsigned short*>(from.values) + block.place.item * from.item_stride +
           head * from.head_stride + row * from.row_stride;
  }

  template <int kRows, class Source>
  __device__ __forceinline__ void load_rows(unsigned char* to, const AttentionInput& from, const Source& tile) const {
    if (from.aligned) copy_rows<Rows, kRows, Traits::kThreads>(shared_address(to), tile, p.call.out.head_dim);
    else gather_rows<Rows, kRows, Traits::kThreads>(to, tile, p.call.out.head_dim);
  }
  __device__ __forceinline__ void load_q() {
    const unsigned short* first = at(p.q, block.head, block.place.query_start) + block.row * p.q.row_stride;
    load_rows<Traits::kRows>(shared.q, p.q, RowSource{first, p.q.row_stride, -block.row, block.rows - block.row});
  }
  __device__ __forceinline__ void load_tile(unsigned char* to, const AttentionInput& from, const unsigned short* first,
                                            long long page_stride, int step) const {
    const int start = steps.key_start(step), end = block.keys - start;
    if constexpr (Traits::kPaged)
      load_rows<Traits::kKeys>(to, from,
                               PagedRowSource{first, from.row_stride, page_stride, pages, p.pages.shift, start, end});
    else load_rows<Traits::kKeys>(to, from, RowSource{first + start * from.row_stride, from.row_stride, 0, end});
  }
  __device__ __forceinline__ void load_keys(int step, int to) const {
    load_tile(shared.k[to], p.k, k, p.pages.k_stride, step);
  }
  __device__ __forceinline__ void load_values(int step, int to) const {
    load_tile(shared.v[to], p.v, v, p.pages.v_stride, step);
  }

  // The first step from `step` on of which there is a key.
  __device__ __forceinline__ int existing(int step) const {
    while (step < steps.count && steps.key_start(step) >= block.keys) ++step;
    return step;
  }

  __device__ __forceinline__ void attend() {
#pragma unroll
    for (int s = 0; s < kSlabs; ++s) {
      rows[s].reset();
#pragma unroll
      for (int i = 0; i < kHeadDim / 2; ++i) out[s][i] = 0.f;
    }
    int step = existing(0);
    if (step == steps.count) return;
    load_q();
    load_keys(step, 0);
    if constexpr (kStages > 1) load_values(step, 0);
    ahead = steps.read(step, part, slab, lane);
    if constexpr (Traits::kQueriesStay) {
      wait_for_copies();
      __syncthreads();
      read_q();
    }
    while (step < steps.listed) step = process<true>(step);
    while (step < steps.count) step = process<false>(step);
  }

  // Returns the step after it. kMasked: the step's words are to be looked at.
  template <bool kMasked>
  __device__ __forceinline__ int process(int step) {
    const int next = kMasked ? existing(step + 1) : step + 1;
    wait_for_copies();
    __syncthreads();  // the copies of all threads; nobody is still at what is overwritten now
    if constexpr (kStages == 1) {
      load_values(step, 0);
    } else if (next < steps.count) {
      load_keys(next, stage ^ 1);
      load_values(next, stage ^ 1);
    }
    const bool used = !kMasked || ahead.used;
    if (used) multiply_keys();
    if (used) change_scores(step);
    if constexpr (kMasked) forbid_pairs(step);
    if (kMasked && next < steps.listed) ahead = steps.read(next, part, slab, lane);
    if (used) weigh_scores<kMasked>();
    if constexpr (kStages == 1) {
      wait_for_copies();
      __syncthreads();
      if (next < steps.count) load_keys(next, 0);
    }
    if (used) multiply_values();
    if constexpr (kStages > 1) stage ^= 1;
    return next;
  }

  // Of the fragment whose first column is 16 c.
  __device__ __forceinline__ u32 q_address(int s, int c) const {
    return Rows::along(shared_address(shared.q) + Rows::offset(first_row + lane % 16, lane / 16), 2 * c) +
           16 * s * Rows::kBytes;
  }
  __device__ __forceinline__ void read_q() {
#pragma unroll
    for (int s = 0; s < kSlabs; ++s)
#pragma unroll
      for (int c = 0; c < kHeadDim / 16; ++c) load_fragments(q[s][c], q_address(s, c));
  }

  __device__ __forceinline__ void read_queries(u32 (&to)[4], int s, int c) const {
    if constexpr (Traits::kQueriesStay) {
#pragma unroll
      for (int i = 0; i < 4; ++i) to[i] = q[s][c][i];
    } else {
      load_fragments(to, q_address(s, c));
    }
  }

  __device__ __forceinline__ void multiply_keys() {
    const u32 tile =
        shared_address(shared.k[stage]) + Rows::offset(lane / 16 * 8 + lane % 8, lane / 8 % 2);  // of two 8 x 16
#pragma unroll
    for (int s = 0; s < kSlabs; ++s)
#pragma unroll
      for (int i = 0; i < 32; ++i) scores[s][i] = 0.f;
#pragma unroll
    for (int c = 0; c < kHeadDim / 16; ++c) {
      u32 queries[kSlabs][4];
#pragma unroll
      for (int s = 0; s < kSlabs; ++s) read_queries(queries[s], s, c);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        u32 keys[4];
        load_fragments(keys, Rows::along(tile, 2 * c) + 16 * j * Rows::kBytes);
#pragma unroll
        for (int s = 0; s < kSlabs; ++s) {
          multiply_add<Element>(&scores[s][8 * j], queries[s], keys[0], keys[1]);
          multiply_add<Element>(&scores[s][8 * j + 4], queries[s], keys[2], keys[3]);
        }
      }
    }
  }

  __device__ __forceinline__ void change_scores(int step) {
#pragma unroll
    for (int s = 0; s < kSlabs; ++s) cap_scores(scores[s], p.call.cap_log2);
    if (p.bias.values == nullptr) return;
    const int back = block.row + first_row + block.keys - block.rows - steps.key_start(step);
#pragma unroll
    for (int s = 0; s < kSlabs; ++s) {
      TileBias bias;
      bias.load(p.bias, bias_of_head(p.bias, block.head), back + 16 * s, lane);
      bias.add_to(scores[s], p.bias.factor);
    }
  }

  __device__ __forceinline__ void forbid_pairs(int step) {
    if (!ahead.used) return;
    const int left = block.keys - steps.key_start(step);
    const u32 there = left < Traits::kKeys ? keys_below(left, lane) : ~0u;
    const int of_queries = steps.key_start(step) - (block.keys - block.rows);
    const bool cut_by_tree = has_tree(p.trees, block.rows) && of_queries > -64;
#pragma unroll
    for (int s = 0; s < kSlabs; ++s) {
      u32 words[1] = {ahead.words[s] & there};
      if (cut_by_tree) words[0] &= words_of_tree(s, of_queries);
      forbid(scores[s], words);
    }
  }

  // first: the query whose key is the step's first.
  __device__ __forceinline__ u32 words_of_tree(int s, int first) const {
    const int place = block.slice / p.call.shape.heads, row = block.row + first_row + 16 * s + lane / 4;
    const auto bits = [&](int of) { return wide_tree_bits(p.trees, place, min(max(of, 0), block.rows - 1), first); };
    return in_register_order(bits(row), bits(row + 8), lane);
  }

  template <bool kMasked>
  __device__ __forceinline__ void weigh_scores() {
#pragma unroll
    for (int s = 0; s < kSlabs; ++s) {
      float factor[2];
      if (weigh<kMasked>(scores[s], rows[s], factor, p.call.scale_log2)) rescale(out[s], factor);
      pack_weights<Element>(weights[s], scores[s]);
    }
  }

  __device__ __forceinline__ void multiply_values() {
    const u32 tile = shared_address(shared.v[stage]) + Rows::offset(lane % 16, lane / 16);
#pragma unroll
    for (int t = 0; t < 4; ++t)
#pragma unroll
      for (int c = 0; c < kHeadDim / 16; ++c) {
        u32 values[4];
        load_transposed_fragments(values, Rows::along(tile, 2 * c) + 16 * t * Rows::kBytes);
#pragma unroll
        for (int s = 0; s < kSlabs; ++s) {
          multiply_add<Element>(&out[s][8 * c], &weights[s][4 * t], values[0], values[1]);
          multiply_add<Element>(&out[s][8 * c + 4], &weights[s][4 * t], values[2], values[3]);
        }
      }
  }

  // False: another CTA, which has yet to arrive, finishes the rows.
  __device__ __forceinline__ bool meet_other_parts() {
#pragma unroll
    for (int s = 0; s < kSlabs; ++s) split(part).publish(out[s], rows[s], 32 * (slab + s) + lane);
    __syncthreads();
    if (!__syncthreads_or(threadIdx.x == 0 && split(0).arrive_last())) return false;
#pragma unroll
    for (int s = 0; s < kSlabs; ++s) split(part).merge(out[s], rows[s], 32 * (slab + s) + lane, p.call.scale_log2);
    return true;
  }
  __device__ __forceinline__ SplitRows<kHeadDim> split(int of_part) const {
    return {{p.partials, p.arrivals, p.layout.slots}, block, of_part, Traits::kParts};
  }

  __device__ __forceinline__ void finish() {
#pragma unroll
    for (int s = 0; s < kSlabs; ++s) rows[s].sum_over_columns();
    if (block.split && !meet_other_parts()) return;
#pragma unroll
    for (int s = 0; s < kSlabs; ++s) {
      write_lse(p.call, block, rows[s], block.row + first_row + 16 * s);
      stage_rows(s);
    }
    __syncwarp();
    write_staged_rows();
  }

  // In place of the warp's own rows of q.
  __device__ __forceinline__ void stage_rows(int s) {
    float inverse[2];
    rows[s].invert(inverse);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = first_row + 16 * s + lane / 4 + 8 * i;
#pragma unroll
      for (int j = 0; j < kHeadDim / 8; ++j)
        *reinterpret_cast<u32*>(shared.q + Rows::offset(row, j) + lane % 4 * 4) =
            Element::pack(out[s][4 * j + 2 * i] * inverse[i], out[s][4 * j + 2 * i + 1] * inverse[i]);
    }
  }
  __device__ __forceinline__ void write_staged_rows() const {
    const AttentionOutput& to = p.call.out;
    unsigned short* first = static_cast<unsigned short*>(to.values) + block.place.item * to.item_stride +
                            block.head * to.head_stride + block.place.query_start * to.row_stride;
    for (int i = lane; i < 16 * kSlabs * Rows::kPieces; i += 32) {
      const int row = first_row + i / Rows::kPieces, piece = i % Rows::kPieces, at = block.row + row;
      if (at < 0 || at >= block.rows || 8 * piece >= to.head_dim) continue;
      unsigned short* const target = first + at * to.row_stride + 8 * piece;
      const uint4 values = *reinterpret_cast<const uint4*>(shared.q + Rows::offset(row, piece));
      if (p.aligned_out) {
        *reinterpret_cast<uint4*>(target) = values;
        continue;
      }
      const u32 pairs[4] = {values.x, values.y, values.z, values.w};
#pragma unroll
      for (int c = 0; c < 8; ++c)
        if (8 * piece + c < to.head_dim) target[c] = static_cast<unsigned short>(pairs[c / 2] >> 16 * (c & 1));
    }
  }
};

template <class Traits, bool kPacked = Traits::kPacked>
struct StepsOf {
  using Type = ArrangedSteps<Traits>;
};
template <class Traits>
struct StepsOf<Traits, true> {
  using Type = PackedSteps<Traits>;
};

// out = softmax(scale q k^T, over the allowed keys) v, per slice; rows without a key give 0 and LSE -inf.
// Grid: a CTA for every item of every slice, or for every 64 rows of a packed mask.
// Needs: head_dim <= kHeadDim, keys past p.call.shape.keys forbidden by the words, or not those of an item.
template <class Traits>
__global__ void __launch_bounds__(Traits::kThreads, Traits::kCtas)
    mma_attention_kernel(const __grid_constant__ MmaParams p) {
  using Steps = typename StepsOf<Traits>::Type;
  extern __shared__ __align__(128) unsigned char raw[];
  RowBlock block;
  const Steps steps = Steps::find(p, static_cast<int>(blockIdx.x), block);
  if (block.row >= block.rows || block.row + Traits::kRows <= 0) return;
  MmaBlock<Traits, Steps> work(*reinterpret_cast<typename Traits::Shared*>(raw), p, block, steps);
  work.attend();
  work.finish();
}

}  // namespace stof::cuda
