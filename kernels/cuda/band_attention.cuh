// SPDX-License-Identifier: Apache-2.0
// Masked attention for rows whose keys lie in one short band: all of them in one matmul, one softmax, no rescaling.
#pragma once
#include "kernels/cuda/band_spans.cuh"
#include "kernels/cuda/output.cuh"

namespace stof::cuda {

// parts: warpgroups of 64 rows, which share the loaded keys. keys: of each part. ctas: what fits an SM. ragged: items
// may have other lengths than planned, and starts. paged: and keys and values that lie in pages.
struct BandShape {
  int parts, keys, ctas;
  bool ragged = false, paged = false;
};

__host__ __device__ constexpr BandShape ragged(BandShape shape) {
  shape.ragged = true;
  return shape;
}
__host__ __device__ constexpr BandShape paged(BandShape shape) {
  shape.ragged = shape.paged = true;
  return shape;
}

template <bool kRagged, bool kPaged>
struct ParamsOfBand {
  using Type = BandParams;
};
template <>
struct ParamsOfBand<true, false> {
  using Type = RaggedBandParams;
};
template <>
struct ParamsOfBand<true, true> {
  using Type = PagedBandParams;
};

template <class Element_, int kHeadDim_, BandShape kShape>
struct BandTraits {
  using Element = Element_;
  using Params = typename ParamsOfBand<kShape.ragged, kShape.paged>::Type;
  static constexpr int kHeadDim = kHeadDim_, kBoxes = (kHeadDim + kBoxColumns - 1) / kBoxColumns;
  static constexpr int kParts = kShape.parts, kKeys = kShape.keys, kCtas = kShape.ctas;
  static constexpr bool kRagged = kShape.ragged, kPaged = kShape.paged;
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
  static constexpr int kNoPage = 1 << 30;  // behind the pool, so that zeros come
  Shared& shared;
  const AttentionMaps& maps;
  const typename Traits::Params& p;
  int part, warp, lane, thread;
  RowBlock block;         // at hand
  int key_start, wanted;  // its first key, its pattern
  RowBlock next_block;
  int next_key_start, next_wanted, next_kv_head;
  int next_page;  // of the lane's box of its keys
  int pattern = -1;
  u32 words[Traits::kWords];
  float scores[kKeys / 2], out[kHeadDim / 2];
  u32 weights[kKeys / 4];
  RowStats rows;

  // The first of the row blocks index, index + stride, ... that has a row, or `total`. Of items as planned those of a
  // slice run fastest, so that neighbours ask for the same keys at the same time.
  __device__ __forceinline__ int find_next(int index, int total) {
    for (; index < total; index += static_cast<int>(gridDim.x)) {
      describe(index);
      if (!Traits::kRagged || (next_block.row < next_block.rows && next_block.row + Traits::kRows > 0)) return index;
    }
    return total;
  }
  __device__ __forceinline__ bool by_spans() const {
    if constexpr (Traits::kPaged) return p.spans.parts > 0;
    else return false;
  }
  __device__ __forceinline__ void describe(int index) {
    int entry;
    if constexpr (Traits::kRagged) {
      const int nth = index / p.slices, slice = slice_of(p.call.shape, index - nth * p.slices);
      next_block = row_block_of(p.call.shape, p.numbers, slice, 0);
      if (by_spans()) return describe_by_spans(nth);
      entry = nth + max(-next_block.row, 0) / Traits::kRows;
      if (entry >= p.of_layout) entry = 0, next_block.rows = 0;
      next_block.row += entry * Traits::kRows;
    } else {
      const int place = index / p.row_blocks;
      entry = index - place * p.row_blocks;
      next_block = row_block_of<false>(p.call.shape, slice_of(p.call.shape, place), entry * Traits::kRows);
    }
    next_key_start = __ldg(&p.rows[entry].key_start);
    next_wanted = __ldg(&p.rows[entry].patterns[part]);  // an index in a register would put the row into local memory
    next_kv_head = next_block.head / p.call.shape.heads_per_kv;
  }
  // The slice's n-th, from its first row on.
  __device__ __forceinline__ void describe_by_spans(int nth) {
    if constexpr (Traits::kPaged) {
      next_block.row = nth * Traits::kRows;
      next_key_start = band_key_start<Traits::kParts>(p.spans, next_block);
      next_wanted = -1;
      next_kv_head = next_block.head / p.call.shape.heads_per_kv;
    }
  }

  // What the barriers of the next row block's loads wait for.
  __device__ __forceinline__ void expect_scores() const {
    barrier_expect(shared_address(&shared.qk_full),
                   Traits::kParts * Traits::kPartBytes + Traits::kBoxes * Traits::kBoxBytes);
  }
  __device__ __forceinline__ void expect_values() const {
    barrier_expect(shared_address(&shared.v_full), Traits::kBoxes * Traits::kBoxBytes);
  }

  // The next row block's q and keys, by one thread; of keys in pages, q.
  __device__ __forceinline__ void load_scores() const {
    const u32 full = shared_address(&shared.qk_full);
    const RowBlock& to = next_block;
#pragma unroll
    for (int box = 0; box < Traits::kBoxes; ++box) {
#pragma unroll
      for (int i = 0; i < Traits::kParts; ++i)
        load_box(shared_address(shared.q[i]) + box * (64 * kRowBytes), maps.q,
                 {box * kBoxColumns, to.place.query_start + to.row + 64 * i, to.residue, to.head, to.place.item}, full);
      if constexpr (!Traits::kPaged) load_box(shared_address(shared.k[box]), maps.k, keys_at(box), full);
    }
  }

  __device__ __forceinline__ void load_values() const {
    const u32 full = shared_address(&shared.v_full);
#pragma unroll
    for (int box = 0; box < Traits::kBoxes; ++box) load_box(shared_address(shared.v[box]), maps.v, keys_at(box), full);
  }

  // By all threads, once the row block before has let go of what is replaced.
  __device__ __forceinline__ void ask_for_scores() const {
    if (threadIdx.x == 0) expect_scores(), load_scores();
    if constexpr (Traits::kPaged) load_boxes(maps.k, shared.k, shared_address(&shared.qk_full));
  }
  __device__ __forceinline__ void ask_for_values() const {
    if (threadIdx.x == 0) expect_values();
    if constexpr (Traits::kPaged) load_boxes(maps.v, shared.v, shared_address(&shared.v_full));
    else if (threadIdx.x == 0) load_values();
  }

  // Where the next row block's keys lie, a box of a page a lane. Behind the grid in front, which may make the table.
  __device__ __forceinline__ void look_up() {
    const int key = next_key_start + (lane << p.pages.copied_log2), item = next_block.slice / p.call.shape.heads;
    next_page = kNoPage;
    if (key >= 0 && key < next_block.keys)
      next_page = __ldg(p.pages.table + item * p.pages.item_stride + (key >> p.pages.shift));
  }
  // Keys or values of the next row block, each warp its share of the boxes. Some may be there before one thread says
  // how many bytes come: the phase cannot end before it arrives.
  __device__ __forceinline__ void load_boxes(const TensorMap& map,
                                             unsigned char (&to)[Traits::kBoxes][Traits::kBoxBytes], u32 full) const {
    const int log2 = p.pages.copied_log2, in_page = (1 << p.pages.shift) - 1;
#pragma unroll 1
    for (int i = uniform(static_cast<int>(threadIdx.x) / 32); i < Traits::kLoadedKeys >> log2;
         i += Traits::kThreads / 32) {
      const int page = __shfl_sync(~0u, next_page, i), row = (next_key_start + (i << log2)) & in_page;
      if (!elected()) continue;
#pragma unroll
      for (int box = 0; box < Traits::kBoxes; ++box)
        load_box(shared_address(to[box]) + (i << log2) * kRowBytes, map,
                 {box * kBoxColumns, row, 0, next_kv_head, page}, full);
    }
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
    if constexpr (Traits::kPaged)
      if (by_spans())
        return words_by_spans(words, p.spans, block, block.row + 64 * part + 16 * warp + lane / 4,
                              key_start + 64 * part, lane);
    if (wanted != pattern) read_pattern(wanted);
  }
  __device__ __forceinline__ void forbid_keys() {
    if constexpr (Traits::kRagged) {
      const int end = block.keys - key_start - 64 * part;
      u32 existing[Traits::kWords];
#pragma unroll
      for (int i = 0; i < Traits::kWords; ++i) existing[i] = words[i] & keys_below(end - 64 * i, lane);
      forbid(scores, existing);
    } else {
      forbid(scores, words);
    }
  }

  // What lies behind the last key, or in a packed batch before the first, must not reach the result: its weight is 0,
  // but 0 times NaN is NaN. Boxes of no page are zeros already. By all threads, once the values are there.
  __device__ __forceinline__ void clear_values() const {
    constexpr int kPieces = kRowBytes / 16, kAll = Traits::kLoadedKeys;
    const int from = min(max(block.keys - key_start, 0), kAll);
    int before = min(max(-key_start, 0), kAll), end = kAll;
    if constexpr (Traits::kPaged) {
      const int box = 1 << p.pages.copied_log2;
      before = 0, end = min((from + box - 1) & -box, kAll);
    }
    const int cleared = before + end - from;
    if (cleared == 0) return;
    for (int i = static_cast<int>(threadIdx.x); i < cleared * kPieces; i += Traits::kThreads) {
      const int nth = i / kPieces, row = nth < before ? nth : nth + from - before;
#pragma unroll
      for (int box = 0; box < Traits::kBoxes; ++box)
        reinterpret_cast<uint4*>(shared.v[box])[row * kPieces + i % kPieces] = make_uint4(0, 0, 0, 0);
    }
    fence_async_proxy();
    named_barrier<1, Traits::kThreads>();
  }

  // The row block found last. Finds the one after it, among index, index + stride, ..., and answers where.
  __device__ __forceinline__ int process(int index, int total, u32 parity) {
    block = next_block, key_start = next_key_start, wanted = next_wanted;
    constexpr u32 kOffset = 64 * kRowBytes / 16;
    if constexpr (Traits::kPaged) {  // its pages are read beside the copies that are waited for
      index = find_next(index, total);
      if (index < total) look_up();
    }
    barrier_wait(shared_address(&shared.qk_full), parity);
    if constexpr (Traits::kRagged) forget(scores);
    issue_band_scores(descriptor(shared_address(shared.q[part])),
                      descriptor(shared_address(shared.k)) + part * kOffset);
    read_words();
    if constexpr (!Traits::kPaged) index = find_next(index, total);
    const bool more = index < total;
    matmul_wait<0>();
    pin(scores);
    if (more) {
      named_barrier<1, Traits::kThreads>();
      ask_for_scores();
    }
    forbid_keys();
    weigh_first(scores, rows, p.call.scale_log2);
    pack_weights<Element>(weights, scores);
    barrier_wait(shared_address(&shared.v_full), parity);
    if constexpr (Traits::kRagged) clear_values();
    if constexpr (Traits::kRagged) forget(out);
    issue_values<Element, kHeadDim, kKeys, false>(
        out, weights, descriptor(shared_address(shared.v), Traits::kBoxBytes) + part * kOffset);
    rows.sum_over_columns();
    matmul_wait<0>();
    pin(out);
    if (more) {
      named_barrier<1, Traits::kThreads>();
      ask_for_values();
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
// Needs: every row block's keys within kLoadedKeys from key_start, each part's within its own kKeys of them; for keys
// in pages key_start and kLoadedKeys at multiples of what a copy brings. The next row block's q and keys are asked for
// after the scores, its values after the last: both copies run beside softmax, values and output.
template <class Traits>
__global__ void __launch_bounds__(Traits::kThreads, Traits::kCtas)
    band_attention_kernel(const __grid_constant__ AttentionMaps maps,
                          const __grid_constant__ typename Traits::Params p) {
  extern __shared__ __align__(1024) unsigned char raw[];
  auto& shared = *reinterpret_cast<typename Traits::Shared*>(raw);
  const int thread = static_cast<int>(threadIdx.x);
  BandBlock<Traits> block{shared, maps, p, uniform(thread / 128), uniform(thread / 32 % 4), thread % 32, thread % 128};
  const int total = p.call.shape.slices * p.row_blocks, stride = static_cast<int>(gridDim.x);
  if (Traits::kRagged && p.call.shape.numbers_made) wait_for_previous_grid();
  int index = block.find_next(static_cast<int>(blockIdx.x), total);
  if (index < total && !block.by_spans())
    block.read_pattern(block.next_wanted);  // beside the wait for the grid and for q and keys
  if (thread == 0 && index < total) {
    barrier_init(shared_address(&shared.qk_full), 1);
    barrier_init(shared_address(&shared.v_full), 1);
    fence_barrier_init();
    if constexpr (!Traits::kPaged) {
      block.expect_scores();
      block.expect_values();
      wait_for_previous_grid();
      block.load_scores();
      block.load_values();
    }
  }
  __syncthreads();
  if constexpr (Traits::kPaged) {
    if (index < total) {
      wait_for_previous_grid();
      block.look_up();
      block.ask_for_scores();
      block.ask_for_values();
    }
  }
  allow_next_grid();
  for (u32 parity = 0; index < total; parity ^= 1) index = block.process(index + stride, total, parity);
  if (Traits::kRagged && thread == 0) wait_for_previous_grid();  // without row blocks too: whoever waits for this grid
  if (elected()) wait_stores_read();                             // counts on what is in front of it
}

}  // namespace stof::cuda
