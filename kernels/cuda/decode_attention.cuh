// SPDX-License-Identifier: Apache-2.0
// Masked attention of few queries over many keys, which lie in rows or in pages: bound by the bandwidth of the memory.
// Queries of all heads of a key head are the rows of one matmul; the keys of all items are shared out evenly over the
// CTAs, whose partial results meet where a task was cut.
#pragma once
#include "kernels/cuda/decode_loader.cuh"
#include "kernels/cuda/decode_merge.cuh"

namespace stof::cuda {

// kRowWarps: of the four warps, 16 rows each; the others take other keys of the same rows. kCtas: what fits an SM.
template <class Element_, int kHeadDim_, int kCtas_, int kRowWarps_>
struct DecodeTraits {
  using Element = Element_;
  static constexpr int kHeadDim = kHeadDim_, kRowWarps = kRowWarps_, kKeyWarps = 4 / kRowWarps;
  static constexpr int kThreads = 128, kRows = 16 * kRowWarps;
  static constexpr int kTileKeys = DecodeList::kTileKeys, kWarpKeys = kTileKeys / kKeyWarps;
  static constexpr int kCtas = kCtas_;
  static constexpr u32 kHalfBytes = kTileKeys * kHeadDim * 2;  // the keys of a tile, or its values
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  static constexpr u32 kRingBytes = kHeadDim == 256 ? 128 * 1024 : 96 * 1024;
#else
  static constexpr u32 kRingBytes = 192 * 1024 / kCtas;
#endif
  static constexpr int kStages = kRingBytes / (2 * kHalfBytes);
  static constexpr int kStart = 512 / kHeadDim / kCtas;  // 4 us of a CTA's share of the bandwidth
  using Tasks = DecodeTasks<kRows, kStart>;
  using WarpPart = PartMemory<16, kHeadDim, 8>;
  using CtaPart = PartMemory<kRows, kHeadDim, 4>;
  using Sum = PartSum<kHeadDim, kThreads>;

  struct Shared {
    alignas(1024) unsigned char stages[kStages][2 * kHalfBytes];
    alignas(16) unsigned long long words[kStages][DecodeList::kRows];
    LoadedTile tiles[kStages];
    int sums[4], found[2];
    int last;  // whether this CTA completed a task that was cut
  };
  static_assert(kStart <= DecodeParams::kMostStart);
  static_assert(sizeof(Shared) * kCtas <= 226 * 1024, "shared memory of an SM");
  static_assert(4 * sizeof(float) * WarpPart::kFloats <= kStages * 2 * kHalfBytes, "parts meet in the ring");
  static_assert(Sum::kBytes <= kStages * 2 * kHalfBytes, "parts of others come through the ring");
  static_assert(sizeof(int) * DecodeParams::kMostTasks <= kStages * 2 * kHalfBytes, "tasks are counted in the ring");
};

template <class Traits>
struct DecodeBlock {
  using Element = typename Traits::Element;
  using Rows = SwizzledRows<Traits::kHeadDim>;
  static constexpr int kHeadDim = Traits::kHeadDim, kStages = Traits::kStages, kWarpKeys = Traits::kWarpKeys;

  typename Traits::Shared& shared;
  const DecodeParams& p;
  const DecodeShare& share;
  int thread, lane, row_warp, key_warp;
  u32 queries[kHeadDim / 4];
  int bit_rows[2];  // of this thread's rows, in mask words
  float scores[kWarpKeys / 2], out[kHeadDim / 2];
  RowStats rows;

  // Places of row r of the task.
  struct Place {
    int head, query;
  };
  __device__ __forceinline__ static Place place_of(const DecodeTask& task, int r) {
    const int at = task.first_row + r, head = at / task.item->queries;
    return {task.first_head + head, at - head * task.item->queries};
  }

  // The A operands of scores; rows and columns that are not there are 0.
  __device__ __forceinline__ void load_queries(const DecodeTask& task) {
    const unsigned short* base = static_cast<const unsigned short*>(p.q) + task.item->q;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = 16 * row_warp + lane / 4 + 8 * i;
      const bool there = r < task.rows;
      const Place place = place_of(task, there ? r : 0);
      bit_rows[i] = task.position + place.query;
      const unsigned short* row = base + place.head * p.q_stride.head + place.query * p.q_stride.row + lane % 4 * 2;
#pragma unroll
      for (int j = 0; j < kHeadDim / 8; ++j)
        queries[2 * j + i] = there && 8 * j < p.head_dim ? *reinterpret_cast<const u32*>(row + 8 * j) : 0u;
    }
  }

  __device__ __forceinline__ void score_tile(u32 keys) {
#pragma unroll
    for (int i = 0; i < kWarpKeys / 2; ++i) scores[i] = 0.f;
    const int row = key_warp * kWarpKeys + lane / 16 * 8 + lane % 8, half = lane / 8 % 2;
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step)
#pragma unroll
      for (int j = 0; j < kWarpKeys / 16; ++j) {
        u32 b[4];
        load_fragments(b, keys + Rows::offset(row + 16 * j, 2 * step + half));
        multiply_add<Element>(scores + 8 * j, queries + 4 * step, b[0], b[1]);
        multiply_add<Element>(scores + 8 * j + 4, queries + 4 * step, b[2], b[3]);
      }
  }

  __device__ __forceinline__ void forbid_keys(const LoadedTile& tile, int stage, int keys) {
    const int left = keys - tile.key_start;
    if (tile.bitmap < 0 && left >= Traits::kTileKeys) return;
    const u64 existing = left >= 64 ? ~0ull : (1ull << left) - 1;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      u64 word = tile.bitmap < 0 ? existing : existing & shared.words[stage][bit_rows[i]];
      word >>= key_warp * kWarpKeys + lane % 4 * 2;
#pragma unroll
      for (int j = 0; j < kWarpKeys / 8; ++j)
#pragma unroll
        for (int column = 0; column < 2; ++column)
          if (!(word >> (8 * j + column) & 1)) scores[4 * j + 2 * i + column] = kMinusInfinity;
    }
  }

  __device__ __forceinline__ void add_values(const u32* weights, u32 values) {
    const int row = key_warp * kWarpKeys + lane / 8 % 2 * 8 + lane % 8, half = lane / 16;
#pragma unroll
    for (int j = 0; j < kWarpKeys / 16; ++j)
#pragma unroll
      for (int column = 0; column < kHeadDim / 16; ++column) {
        u32 b[4];
        load_transposed_fragments(b, values + Rows::offset(row + 16 * j, 2 * column + half));
        multiply_add<Element>(out + 8 * column, weights + 4 * j, b[0], b[1]);
        multiply_add<Element>(out + 8 * column + 4, weights + 4 * j, b[2], b[3]);
      }
  }

  __device__ __forceinline__ void add_tile(int stage, int keys) {
    const u32 at = shared_address(shared.stages[stage]);
    score_tile(at);
    cap_scores(scores, p.cap_log2);
    forbid_keys(shared.tiles[stage], stage, keys);
    float factor[2];
    if (weigh<true>(scores, rows, factor, p.scale_log2)) rescale(out, factor);
    u32 weights[kWarpKeys / 4];
    pack_weights<Element>(weights, scores);
    add_values(weights, at + Traits::kHalfBytes);
  }

  // Tiles [first, first + count) of a task.
  __device__ __forceinline__ void add_tiles(const DecodeTask& task, int first, int count) {
    DecodeLoader<Traits> loader(shared, p, task, first);
#pragma unroll 1
    for (int i = 0; i < kStages - 1; ++i) {
      if (i < count) loader.load(i);
      commit_copies();
    }
    load_queries(task);
    int stage = 0, freed = kStages - 1;
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      wait_for_copies_but<kStages - 2>();
      __syncthreads();  // tile i is there for everybody, and everybody is done with the one before
      if (i + kStages - 1 < count) loader.load(freed);
      commit_copies();
      add_tile(stage, task.keys);
      stage = stage + 1 == kStages ? 0 : stage + 1;
      freed = freed + 1 == kStages ? 0 : freed + 1;
    }
    __syncthreads();
  }

  __device__ __forceinline__ float* part_memory() const { return reinterpret_cast<float*>(shared.stages); }

  __device__ __forceinline__ void leave_part() {
    rows.sum_over_columns();
    const typename Traits::WarpPart part{part_memory() + thread / 32 * Traits::WarpPart::kFloats};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = lane / 4 + 8 * i;
#pragma unroll
      for (int j = 0; j < kHeadDim / 8; ++j)
        *reinterpret_cast<float2*>(part.row(r) + 8 * j + lane % 4 * 2) =
            make_float2(out[4 * j + 2 * i], out[4 * j + 2 * i + 1]);
      if (lane % 4 == 0) *reinterpret_cast<float2*>(part.stats(r)) = make_float2(rows.maximum[i], rows.sum[i]);
    }
    __syncthreads();
  }

  // Of row r over the keys of all warps.
  __device__ __forceinline__ RowPart part_of_cta(int r, int column) const {
    RowPart total = no_part();
#pragma unroll
    for (int i = 0; i < Traits::kKeyWarps; ++i) {
      const typename Traits::WarpPart part{part_memory() +
                                           (r / 16 * Traits::kKeyWarps + i) * Traits::WarpPart::kFloats};
      add_part(total, part_in(part.row(r % 16) + column, part.stats(r % 16)), p.scale_log2);
    }
    return total;
  }

  // Calls each(row, column) for four columns at a time.
  template <class Each>
  __device__ __forceinline__ void for_columns(const DecodeTask& task, const Each& each) const {
    constexpr int kFours = kHeadDim / 4;
    for (int i = thread; i < task.rows * kFours; i += Traits::kThreads)
      if (i % kFours * 4 < p.head_dim) each(i / kFours, i % kFours * 4);
  }

  __device__ __forceinline__ void write(const DecodeTask& task, int r, int column, const RowPart& total) const {
    const Place place = place_of(task, r);
    unsigned short* row = static_cast<unsigned short*>(p.out) + task.item->out + place.head * p.out_stride.head +
                          place.query * p.out_stride.row;
    float* lse = p.lse == nullptr
                     ? nullptr
                     : p.lse + task.item->lse + place.head * p.lse_stride.head + place.query * p.lse_stride.row;
    write_columns<Element>(row, lse, column, total, p.scale_log2);
  }

  __device__ __forceinline__ typename Traits::CtaPart part_at(int cta, bool first) const {
    return {p.partials + (2ll * cta + (first ? 0 : 1)) * Traits::CtaPart::kFloats};
  }

  // Of a whole task, or of one whose units begin at `start` among all units and of which this CTA did some, with the
  // first of its own units or later.
  __device__ __forceinline__ void finish(const DecodeTask& task, bool whole, int start, bool with_first) {
    leave_part();
    if (whole) {
      for_columns(task, [&](int r, int column) { write(task, r, column, part_of_cta(r, column)); });
    } else {
      const typename Traits::CtaPart mine = part_at(static_cast<int>(blockIdx.x), with_first);
      for_columns(task, [&](int r, int column) {
        const RowPart total = part_of_cta(r, column);
        __stcg(reinterpret_cast<float4*>(mine.row(r) + column), total.values);
        if (column == 0)
          __stcg(reinterpret_cast<float4*>(mine.stats(r)), make_float4(total.maximum, total.sum, 0.f, 0.f));
      });
      merge_when_last(task, start);
    }
    __syncthreads();  // the ring is free again
  }

  __device__ __forceinline__ void merge_when_last(const DecodeTask& task, int start) {
    const int first = share.cta_of(start + Traits::kStart);
    const int count = share.cta_of(start + task.units - 1) - first + 1;
    __syncthreads();
    if (thread == 0) {
      shared.last = add_and_order(p.arrivals + first, 1) == count - 1;
      if (shared.last) p.arrivals[first] = 0;
    }
    __syncthreads();
    if (shared.last) merge(task, first, count, share.begin_of(first) >= start);
  }

  // The first parts of CTAs [first, first + count), or of the first one the last.
  __device__ __forceinline__ void merge(const DecodeTask& task, int first, int count, bool with_first) const {
    using Sum = typename Traits::Sum;
    constexpr int kFours = kHeadDim / 4;
    constexpr int kStride = 2 * Traits::CtaPart::kFloats;
    for (int at = thread; at - thread < task.rows * kFours; at += Traits::kThreads) {
      const bool there = at < task.rows * kFours;
      const int r = there ? at / kFours : 0, column = at % kFours * 4;
      Sum sum{reinterpret_cast<float4*>(part_memory()), p.scale_log2, no_part()};
      for (int part = 0; part < count; part += Sum::kAtOnce) {
        const typename Traits::CtaPart next = part_at(first + part, true);
        const int shift = part == 0 && !with_first ? Traits::CtaPart::kFloats : 0;
        sum.add(next.row(r) + column, next.stats(r), kStride, shift, min(count - part, Sum::kAtOnce));
      }
      if (there && column < p.head_dim) write(task, r, column, sum.total);
    }
  }

  __device__ __forceinline__ void run(const typename Traits::Tasks& tasks) {
    int at = share.begin, start = share.begin - share.offset;
#pragma unroll 1
    for (int index = share.task; at < share.end; ++index) {
      const DecodeTask task = tasks.at(index);
      const int end = min(share.end, start + task.units);
      const int first = max(at - start - Traits::kStart, 0), count = max(end - start - Traits::kStart, 0) - first;
      if (task.units > 0 && (count > 0 || task.tiles == 0)) {
        rows.reset();
#pragma unroll
        for (int i = 0; i < kHeadDim / 2; ++i) out[i] = 0.f;
        if (task.tiles > 0) add_tiles(task, first, count);
        else wait_for_inputs();
        finish(task, count == task.tiles || task.tiles == 0, start, at == share.begin);
      }
      at = end;
      start += task.units;
    }
  }
};

// out = softmax(scale q k^T, over the allowed keys) v; rows without a key give 0 and LSE -inf.
// Grid: any. Needs: head_dim a multiple of 8; q, k, v, out and their strides, pages' included, at multiples of 16
// bytes; of an item at most 16 queries, whose positions the layout has.
template <class Traits>
__global__ void __launch_bounds__(Traits::kThreads, Traits::kCtas)
    decode_attention_kernel(const __grid_constant__ DecodeParams p) {
  extern __shared__ __align__(1024) unsigned char raw[];
  auto& shared = *reinterpret_cast<typename Traits::Shared*>(raw);
  // What the plan made may be read before the previous grid ends, what calls bring may not.
  if (p.key_lengths || p.item_list) wait_for_inputs();
  allow_overlap();
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
  const typename Traits::Tasks tasks{p};
  const DecodeShare share = share_of_cta(tasks, reinterpret_cast<int*>(shared.stages), shared.sums, shared.found);
  DecodeBlock<Traits> block{shared, p,  share, thread, thread % 32, warp / Traits::kKeyWarps, warp % Traits::kKeyWarps,
                            {},     {}, {},    {},     {}};
  if (share.begin < share.end) {
    __syncthreads();
    block.run(tasks);
  }
}

}  // namespace stof::cuda
