// SPDX-License-Identifier: Apache-2.0
// Masked attention for rows with few keys, wherever they lie: 64 rows and all their keys, gathered in pieces of 32, in
// one matmul. Row blocks with more keys take them in several such units.
#pragma once
#include "kernels/cuda/output.cuh"

namespace stof::cuda {

// pieces: of 32 keys, in a unit. ctas: what fits an SM. ragged: items may have other lengths than planned, and starts.
struct GatherShape {
  int pieces, ctas;
  bool ragged = false;
};

template <class Element_, int kHeadDim_, GatherShape kShape>
struct GatherTraits {
  using Element = Element_;
  static constexpr int kHeadDim = kHeadDim_, kBoxes = (kHeadDim + kBoxColumns - 1) / kBoxColumns;
  static constexpr int kPieces = kShape.pieces, kPieceKeys = 32, kKeys = kPieceKeys * kPieces, kCtas = kShape.ctas;
  static constexpr bool kRagged = kShape.ragged;
  static constexpr int kThreads = 128;
  static constexpr int kWords = (kKeys + 63) / 64;  // mask words a thread
  static constexpr int kUnitInts = kPieces + 1;

  static constexpr u32 kPieceBytes = kPieceKeys * kRowBytes, kBoxBytes = kKeys * kRowBytes;
  static constexpr u32 kRowsBytes = kBoxes * 64 * kRowBytes;  // 64 rows of q, or of out

  struct Shared {
    alignas(1024) unsigned char q[kRowsBytes];
    unsigned char k[kBoxes][kBoxBytes];
    unsigned char v[kBoxes][kBoxBytes];
    unsigned char out[kRowsBytes];
    u64 qk_full, v_full;
    int last;  // whether this CTA completed a split row block
  };
  static_assert(sizeof(Shared) * kCtas <= 227 * 1024, "shared memory of an SM");
};

template <class Traits>
struct GatherBlock {
  using Shared = typename Traits::Shared;
  using Element = typename Traits::Element;
  static constexpr int kHeadDim = Traits::kHeadDim, kKeys = Traits::kKeys;

  // One unit of a row block.
  struct Unit {
    RowBlock block;
    const int* at;  // its starts, and behind them its pattern
    int left;       // units of the row block after this one
    bool first;
  };

  Shared& shared;
  const AttentionMaps& maps;
  const GatherParams& p;
  int warp, lane, thread;
  Unit unit, next;
  int wave = 0;
  int pattern = -1;
  int next_kv_head, starts[(Traits::kPieces + 3) / 4];
  u32 words[Traits::kWords];
  float scores[kKeys / 2], out[kHeadDim / 2];
  u32 weights[kKeys / 4];
  RowStats rows;

  // Items in turns, every other turn backwards: who began with a dear one gets its next one late.
  __device__ __forceinline__ int item_of_wave() const {
    const int ctas = static_cast<int>(gridDim.x), cta = static_cast<int>(blockIdx.x);
    return wave * ctas + (wave & 1 ? ctas - 1 - cta : cta);
  }

  // Sets `next` to the first unit of the next item with a row; false: there is none.
  __device__ __forceinline__ bool find_item() {
    const int total = p.call.shape.slices * p.item_count;
    for (; wave * static_cast<int>(gridDim.x) < total; ++wave) {
      const int index = item_of_wave();
      if (index >= total) continue;
      describe(index);
      if (!Traits::kRagged || (next.block.row < next.block.rows && next.block.row + 64 > 0)) {
        ++wave;
        return true;
      }
    }
    return false;
  }
  // Long items of all slices, then short ones slice by slice, so that neighbours ask for the same keys at the same
  // time.
  __device__ __forceinline__ void describe(int index) {
    const int all_long = p.call.shape.slices * p.long_items;
    int slice, entry;
    if (index < all_long) {
      slice = index / p.long_items, entry = index - slice * p.long_items;
    } else {
      slice = (index - all_long) / p.short_items, entry = p.long_items + (index - all_long) - slice * p.short_items;
    }
    const int4 item = __ldg(reinterpret_cast<const int4*>(p.items) + entry);
    next.block = row_block_of<Traits::kRagged>(p.call.shape, slice, item.x);
    next.at = p.units + static_cast<long long>(item.y) * Traits::kUnitInts;
    next.left = item.z - 1;
    next.block.split = item.w;
    next.first = true;
    next_kv_head = next.block.head / p.call.shape.heads_per_kv;
    read_starts();
  }
  // Where the pieces begin that this warp asks for.
  __device__ __forceinline__ void read_starts() {
#pragma unroll
    for (int i = 0; i < Traits::kPieces; i += 4)
      if (i + warp < Traits::kPieces) starts[i / 4] = __ldg(next.at + i + warp);
  }
  __device__ __forceinline__ bool find_next() {
    if (unit.left == 0) return find_item();
    next = unit;
    next.at += Traits::kUnitInts;
    --next.left;
    next.first = false;
    read_starts();
    return true;
  }

  // Pieces of keys or values: each warp asks for its own.
  __device__ __forceinline__ void load_pieces(unsigned char (&target)[Traits::kBoxes][Traits::kBoxBytes],
                                              const TensorMap& map, u32 full) const {
#pragma unroll
    for (int i = 0; i < Traits::kPieces; i += 4) {
      const int piece = i + warp;
      if (piece >= Traits::kPieces) break;
#pragma unroll
      for (int box = 0; box < Traits::kBoxes; ++box)
        load_box(shared_address(target[box]) + static_cast<u32>(piece) * Traits::kPieceBytes, map,
                 {box * kBoxColumns, next.block.place.key_start + starts[i / 4], next.block.residue, next_kv_head,
                  next.block.place.item},
                 full);
    }
  }
  // The next unit's keys, and q where its row block begins. By one lane of every warp; the first one counts the bytes,
  // which may come after some of them have arrived.
  __device__ __forceinline__ void load_scores() const {
    const u32 full = shared_address(&shared.qk_full);
    if (warp == 0) {
      const RowBlock& to = next.block;
      barrier_expect(full, Traits::kBoxes * Traits::kBoxBytes + (next.first ? Traits::kRowsBytes : 0));
      if (next.first) {
#pragma unroll
        for (int box = 0; box < Traits::kBoxes; ++box)
          load_box(shared_address(shared.q) + box * (64 * kRowBytes), maps.q,
                   {box * kBoxColumns, to.place.query_start + to.row, to.residue, to.head, to.place.item}, full);
      }
    }
    load_pieces(shared.k, maps.k, full);
  }
  __device__ __forceinline__ void load_values() const {
    const u32 full = shared_address(&shared.v_full);
    if (warp == 0) barrier_expect(full, Traits::kBoxes * Traits::kBoxBytes);
    load_pieces(shared.v, maps.v, full);
  }

  // Most row blocks have the pattern of the one before.
  __device__ __forceinline__ void read_words() {
    const int wanted = __ldg(unit.at + Traits::kPieces);
    if (wanted != pattern) {
      pattern = wanted;
#pragma unroll
      for (int i = 0; i < Traits::kWords; ++i) words[i] = __ldg(p.words + (wanted * Traits::kWords + i) * 128 + thread);
    }
    if constexpr (Traits::kRagged) forbid_missing_keys();
  }
  // Bits of a thread's word: 16 for the keys of the lower piece, 16 for those of the upper.
  __device__ __forceinline__ void forbid_missing_keys() {
#pragma unroll
    for (int piece = 0; piece < Traits::kPieces; ++piece) {
      const int left = unit.block.keys - __ldg(unit.at + piece);
      if (left >= Traits::kPieceKeys) continue;
      pattern = -1;
      words[piece / 2] &= ~(0xffffu << 16 * (piece & 1)) | (keys_below(left, lane) & 0xffffu) << 16 * (piece & 1);
    }
  }

  // What lies behind the last key must not reach the result: its weight is 0, but 0 times NaN is NaN.
  __device__ __forceinline__ void clear_values(u32 parity) const {
    bool any = false;
#pragma unroll
    for (int piece = 0; piece < Traits::kPieces; ++piece)
      any |= __ldg(unit.at + piece) + Traits::kPieceKeys > unit.block.keys;
    if (!any) return;
    barrier_wait(shared_address(&shared.v_full), parity);
    constexpr int kVectors = kRowBytes / 16;
#pragma unroll
    for (int box = 0; box < Traits::kBoxes; ++box)
      for (int i = thread; i < kKeys * kVectors; i += Traits::kThreads) {
        const int row = i / kVectors;
        if (__ldg(unit.at + row / Traits::kPieceKeys) + row % Traits::kPieceKeys >= unit.block.keys)
          reinterpret_cast<uint4*>(shared.v[box])[i] = make_uint4(0, 0, 0, 0);
      }
    fence_async_proxy();
    named_barrier<1, Traits::kThreads>();
  }

  // Scores to weights; what came before is rescaled where a maximum grew.
  __device__ __forceinline__ void weigh_unit() {
    if (unit.first) {
      weigh_first(scores, rows, p.call.scale_log2);
#pragma unroll
      for (int i = 0; i < kHeadDim / 2; ++i) out[i] = 0.f;
    } else {
      float factor[2];
      if (weigh<true>(scores, rows, factor, p.call.scale_log2)) rescale(out, factor);
    }
    pack_weights<Element>(weights, scores);
  }

  // The unit found last. Finds the one after it; false: there is none.
  __device__ __forceinline__ bool process(u32 parity) {
    unit = next;
    barrier_wait(shared_address(&shared.qk_full), parity);
    issue_scores<Element, kHeadDim, kKeys>(scores, descriptor(shared_address(shared.q)),
                                           descriptor(shared_address(shared.k)));
    read_words();
    if constexpr (Traits::kRagged) clear_values(parity);
    const bool more = find_next();
    matmul_wait<0>();
    pin(scores);
    if (more) {
      named_barrier<1, Traits::kThreads>();
      if (lane == 0) load_scores();
    }
    forbid(scores, words);
    weigh_unit();
    barrier_wait(shared_address(&shared.v_full), parity);
    issue_values<Element, kHeadDim, kKeys>(out, weights, descriptor(shared_address(shared.v), Traits::kBoxBytes));
    matmul_wait<0>();
    pin(out);
    if (more) {
      named_barrier<1, Traits::kThreads>();
      if (lane == 0) load_values();
    }
    if (unit.left == 0) finish();
    return more;
  }

  __device__ __forceinline__ void finish() {
    rows.sum_over_columns();
    const RowBlock& block = unit.block;
    if (uniform(block.split)) {
      const SplitRows<kHeadDim> split({p.partials, p.arrivals, p.slots}, block, 0, 1);
      split.publish(out, rows, thread);
      named_barrier<1, Traits::kThreads>();
      if (thread == 0) shared.last = split.arrive_last();
      named_barrier<1, Traits::kThreads>();
      if (!shared.last) return;
      split.merge(out, rows, thread, p.call.scale_log2);
    }
    const int first = block.row + 16 * warp;
    float inverse[2];
    rows.invert(inverse);
    if (uniform(first) >= 0 && uniform(first) + 16 <= uniform(block.rows)) {
      wait_for_way_out();  // the store before has left its place
      write_rows<Element, kHeadDim>(false, maps.out, block, out, inverse, first,
                                    shared_address(shared.out) + static_cast<u32>(warp) * (16 * kRowBytes));
    } else write_some_rows<Element, kHeadDim>(p.call, block, out, inverse, first);
    write_lse(p.call, block, rows, first);
  }
};

// out = softmax(scale q k^T, over the allowed keys) v, per slice; rows without a key give 0 and LSE -inf.
// Grid: persistent, at most slices * item_count CTAs, kCtas an SM. Maps: boxes of 64 rows of q, 32 of k and v.
// Needs: keys past p.call.shape.keys forbidden by the words, or not those of an item.
template <class Traits>
__global__ void __launch_bounds__(Traits::kThreads, Traits::kCtas)
    gather_attention_kernel(const __grid_constant__ AttentionMaps maps, const __grid_constant__ GatherParams p) {
  extern __shared__ __align__(1024) unsigned char raw[];
  auto& shared = *reinterpret_cast<typename Traits::Shared*>(raw);
  const int thread = static_cast<int>(threadIdx.x);
  GatherBlock<Traits> block{shared, maps, p, uniform(thread / 32), thread % 32, thread, {}, {}};
  if (thread == 0) {
    barrier_init(shared_address(&shared.qk_full), 1);
    barrier_init(shared_address(&shared.v_full), 1);
    fence_barrier_init();
  }
  if (Traits::kRagged && p.call.shape.numbers_made) wait_for_previous_grid();
  bool more = block.find_item();
  __syncthreads();
  if (more && block.lane == 0) {
    wait_for_previous_grid();
    block.load_scores();
    block.load_values();
  }
  allow_next_grid();
  for (u32 parity = 0; more; parity ^= 1) more = block.process(parity);
  if (Traits::kRagged && thread == 0) wait_for_previous_grid();  // without items too: whoever waits for this grid
  if (elected()) wait_stores_read();                             // counts on what is in front of it
}

}  // namespace stof::cuda
