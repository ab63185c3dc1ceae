// SPDX-License-Identifier: Apache-2.0
// Masked attention for rows whose keys lie in one short band: all of them in one matmul, one softmax, no rescaling.
#pragma once
#include "kernels/cuda/output.cuh"

namespace stof::cuda {

// parts: warpgroups of 64 rows, which share the loaded keys. keys: of each part. ctas: what fits an SM. ragged: items
// may have other lengths than planned, and starts.
struct BandShape {
  int parts, keys, ctas;
  bool ragged = false;
};

template <class Element_, int kHeadDim_, BandShape kShape>
struct BandTraits {
  using Element = Element_;
  static constexpr int kHeadDim = kHeadDim_, kBoxes = (kHeadDim + kBoxColumns - 1) / kBoxColumns;
  static constexpr int kParts = kShape.parts, kKeys = kShape.keys, kCtas = kShape.ctas;
  static constexpr bool kRagged = kShape.ragged;
  static constexpr int kThreads = 128 * kParts, kRows = 64 * kParts;
  static constexpr int kLoadedKeys = kKeys + 64 * (kParts - 1);  // part i uses keys [64 i, 64 i + kKeys) of them
  static constexpr int kWords = (kKeys + 63) / 64;               // mask words a thread
  static_assert(kLoadedKeys <= 256, "one box");

  static constexpr u32 kBoxBytes = kLoadedKeys * kRowBytes;
  static constexpr u32 kPartBytes = kBoxes * 64 * kRowBytes;

  struct Shared {
    alignas(1024) unsigned char q[kParts][kPartBytes];
    unsigned char k[kBoxes][kBoxBytes];
    unsigned char v[kBoxes][kBoxBytes];
    unsigned char out[kParts][kPartBytes];
    u64 qk_full, v_full;
  };
  static_assert(sizeof(Shared) * kCtas <= 227 * 1024, "shared memory of an SM");
};

template <class Traits>
struct BandBlock {
  using Shared = typename Traits::Shared;
  using Element = typename Traits::Element;
  static constexpr int kHeadDim = Traits::kHeadDim, kKeys = Traits::kKeys;
  Shared& shared;
  const AttentionMaps& maps;
  const BandParams& p;
  int part, warp, lane, thread;
  RowBlock block;         // at hand
  int key_start, wanted;  // its first key, its pattern
  RowBlock next_block;
  int next_key_start, next_wanted, next_kv_head;
  int pattern = -1;
  u32 words[Traits::kWords];
  float scores[kKeys / 2], out[kHeadDim / 2];
  u32 weights[kKeys / 4];
  RowStats rows;

  // The first of the row blocks index, index + stride, ... that has a row, or `total`. Those of a slice run fastest, so
  // that neighbours ask for the same keys at the same time.
  __device__ __forceinline__ int find_next(int index, int total) {
    for (; index < total; index += static_cast<int>(gridDim.x)) {
      describe(index);
      if (!Traits::kRagged || (next_block.row < next_block.rows && next_block.row + Traits::kRows > 0)) return index;
    }
    return total;
  }
  __device__ __forceinline__ void describe(int index) {
    const int place = index / p.row_blocks, entry = index - place * p.row_blocks;
    const int slice = slice_of(p.call.shape, place);
    next_key_start = __ldg(&p.rows[entry].key_start);
    next_wanted = __ldg(&p.rows[entry].patterns[part]);  // an index in a register would put the row into local memory
    next_block = row_block_of<Traits::kRagged>(p.call.shape, slice, entry * Traits::kRows);
    next_kv_head = next_block.head / p.call.shape.heads_per_kv;
  }

  // What the barriers of the next row block's loads wait for.
  __device__ __forceinline__ void expect_scores() const {
    barrier_expect(shared_address(&shared.qk_full),
                   Traits::kParts * Traits::kPartBytes + Traits::kBoxes * Traits::kBoxBytes);
  }
  __device__ __forceinline__ void expect_values() const {
    barrier_expect(shared_address(&shared.v_full), Traits::kBoxes * Traits::kBoxBytes);
  }

  // The next row block's q and keys.
  __device__ __forceinline__ void load_scores() const {
    const u32 full = shared_address(&shared.qk_full);
    const RowBlock& to = next_block;
#pragma unroll
    for (int box = 0; box < Traits::kBoxes; ++box) {
#pragma unroll
      for (int i = 0; i < Traits::kParts; ++i)
        load_box(shared_address(shared.q[i]) + box * (64 * kRowBytes), maps.q,
                 {box * kBoxColumns, to.place.query_start + to.row + 64 * i, to.residue, to.head, to.place.item}, full);
      load_box(shared_address(shared.k[box]), maps.k, keys_at(box), full);
    }
  }

  __device__ __forceinline__ void load_values() const {
    const u32 full = shared_address(&shared.v_full);
#pragma unroll
    for (int box = 0; box < Traits::kBoxes; ++box) load_box(shared_address(shared.v[box]), maps.v, keys_at(box), full);
  }

  __device__ __forceinline__ Place keys_at(int box) const {
    return {box * kBoxColumns, next_block.place.key_start + next_key_start, next_block.residue, next_kv_head,
            next_block.place.item};
  }

  __device__ __forceinline__ void read_pattern(int index) {
    pattern = index;
#pragma unroll
    for (int i = 0; i < Traits::kWords; ++i) words[i] = __ldg(p.words + (index * Traits::kWords + i) * 128 + thread);
  }
  // Most row blocks of a band have the pattern of the one before.
  __device__ __forceinline__ void read_words() {
    if (wanted != pattern) read_pattern(wanted);
    const int start = key_start + 64 * part;
    if (!Traits::kRagged || start + kKeys <= block.keys) return;
    pattern = -1;
#pragma unroll
    for (int i = 0; i < Traits::kWords; ++i) words[i] &= keys_below(block.keys - start - 64 * i, lane);
  }

  // What lies behind the last key, or in a packed batch before the first, must not reach the result: its weight is 0,
  // but 0 times NaN is NaN.
  __device__ __forceinline__ void clear_values(u32 parity) const {
    if (key_start >= 0 && key_start + Traits::kLoadedKeys <= block.keys) return;
    barrier_wait(shared_address(&shared.v_full), parity);
    constexpr int kPieces = kRowBytes / 16;
#pragma unroll
    for (int box = 0; box < Traits::kBoxes; ++box)
      for (int i = static_cast<int>(threadIdx.x); i < Traits::kLoadedKeys * kPieces; i += Traits::kThreads) {
        const int key = key_start + i / kPieces;
        if (key < 0 || key >= block.keys) reinterpret_cast<uint4*>(shared.v[box])[i] = make_uint4(0, 0, 0, 0);
      }
    fence_async_proxy();
    named_barrier<1, Traits::kThreads>();
  }

  // The row block found last. Finds the one after it, among index, index + stride, ..., and answers where.
  __device__ __forceinline__ int process(int index, int total, u32 parity) {
    block = next_block, key_start = next_key_start, wanted = next_wanted;
    constexpr u32 kOffset = 64 * kRowBytes / 16;
    barrier_wait(shared_address(&shared.qk_full), parity);
    issue_band_scores(descriptor(shared_address(shared.q[part])),
                      descriptor(shared_address(shared.k)) + part * kOffset);
    read_words();
    if constexpr (Traits::kRagged) clear_values(parity);
    index = find_next(index, total);
    const bool more = index < total;
    matmul_wait<0>();
    pin(scores);
    if (more) {
      named_barrier<1, Traits::kThreads>();
      if (threadIdx.x == 0) expect_scores(), load_scores();
    }
    forbid(scores, words);
    weigh_first(scores, rows, p.call.scale_log2);
    pack_weights<Element>(weights, scores);
    barrier_wait(shared_address(&shared.v_full), parity);
    issue_values<Element, kHeadDim, kKeys, false>(
        out, weights, descriptor(shared_address(shared.v), Traits::kBoxBytes) + part * kOffset);
    rows.sum_over_columns();
    matmul_wait<0>();
    pin(out);
    if (more) {
      named_barrier<1, Traits::kThreads>();
      if (threadIdx.x == 0) expect_values(), load_values();
    }
    finish();
    return index;
  }

  __device__ __forceinline__ void issue_band_scores(u32 q, u32 k) {
    matmul_fence();
#pragma unroll
    for (int i = 0; i < kHeadDim / 16; ++i)
      Wgmma<Element, kKeys>::shared(scores, q + i / 4 * (64 * kRowBytes / 16) + i % 4 * 2,
                                    k + i / 4 * (Traits::kBoxBytes / 16) + i % 4 * 2, i != 0);
    matmul_commit();
  }

  __device__ __forceinline__ void finish() {
    const int first = block.row + 64 * part + 16 * warp;
    float inverse[2];
    rows.invert(inverse);
    if (uniform(first) >= 0 && uniform(first) + 16 <= uniform(block.rows)) {
      wait_for_way_out();  // the store before has left its place
      write_rows<Element, kHeadDim>(p.call.out.read_next, maps.out, block, out, inverse, first,
                                    shared_address(shared.out[part]) + static_cast<u32>(warp) * (16 * kRowBytes));
    } else write_some_rows<Element, kHeadDim>(p.call, block, out, inverse, first);
    write_lse(p.call, block, rows, first);
  }
};

// out = softmax(scale q k^T, over the allowed keys) v, per slice; rows without a key give 0 and LSE -inf.
// Grid: persistent, at most slices * row_blocks CTAs, kCtas an SM, dealt round robin: the row blocks cost the same.
// Needs: every row block's keys within kLoadedKeys from key_start, each part's within its own kKeys of them.
// The next row block's q and keys are asked for after the scores, its values after the last: both copies run beside
// softmax, values and output.
template <class Traits>
__global__ void __launch_bounds__(Traits::kThreads, Traits::kCtas)
    band_attention_kernel(const __grid_constant__ AttentionMaps maps, const __grid_constant__ BandParams p) {
  extern __shared__ __align__(1024) unsigned char raw[];
  auto& shared = *reinterpret_cast<typename Traits::Shared*>(raw);
  const int thread = static_cast<int>(threadIdx.x);
  BandBlock<Traits> block{
      shared, maps, p, uniform(thread / 128), uniform(thread / 32 % 4), thread % 32, thread % 128, {}, {}, {},
      {},     {},   {}};
  const int total = p.call.shape.slices * p.row_blocks, stride = static_cast<int>(gridDim.x);
  if (Traits::kRagged && p.call.shape.numbers_made) wait_for_previous_grid();
  int index = block.find_next(static_cast<int>(blockIdx.x), total);
  if (index < total) block.read_pattern(block.next_wanted);  // beside the wait for the grid and for q and keys
  if (thread == 0 && index < total) {
    barrier_init(shared_address(&shared.qk_full), 1);
    barrier_init(shared_address(&shared.v_full), 1);
    fence_barrier_init();
    block.expect_scores();
    block.expect_values();
    wait_for_previous_grid();
    block.load_scores();
    block.load_values();
  }
  __syncthreads();
  allow_next_grid();
  for (u32 parity = 0; index < total; parity ^= 1) index = block.process(index + stride, total, parity);
  if (Traits::kRagged && thread == 0) wait_for_previous_grid();  // without row blocks too: whoever waits for this grid
  if (elected()) wait_stores_read();                             // counts on what is in front of it
}

}  // namespace stof::cuda
