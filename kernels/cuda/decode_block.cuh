// SPDX-License-Identifier: Apache-2.0
// What a CTA of the decode kernels does with tiles of a task: scores, weights, values, and its result for rows.
#pragma once
#include "kernels/cuda/decode_loader.cuh"
#include "kernels/cuda/decode_merge.cuh"

namespace stof::cuda {

// kRowWarps: of the four warps, 16 rows each; the others take other keys of the same rows. kCtas: what fits an SM.
template <class Element_, int kHeadDim_, int kCtas_, int kRowWarps_>
struct DecodeTraits {
  using Element = Element_;
  static constexpr int kHeadDim = kHeadDim_, kRowWarps = kRowWarps_, kKeyWarps = 4 / kRowWarps;
  static constexpr int kRoleThreads = 128, kThreads = 2 * kRoleThreads, kRows = 16 * kRowWarps;
  static constexpr int kTileKeys = DecodeList::kTileKeys, kWarpKeys = kTileKeys / kKeyWarps;
  static constexpr u32 kHalfBytes = kTileKeys * kHeadDim * 2;  // the keys of a tile, or its values
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  static constexpr int kCtas = 1;
  static constexpr u32 kRingBytes = kHeadDim == 256 ? 128 * 1024 : 96 * 1024;
#else
  static constexpr int kCtas = kCtas_;
  static constexpr u32 kRingBytes = 192 * 1024 / kCtas;
#endif
  // Two CTAs give each thread 128 registers, of which those that load need few; setmaxnreg deals in steps of 8.
  static constexpr bool kDealsRegisters = kCtas == 2;
  static constexpr int kLoaderRegisters = 40, kReaderRegisters = 216;
  static constexpr int kStages = kRingBytes / (2 * kHalfBytes);

  struct Shared {
    alignas(1024) unsigned char stages[kStages][2 * kHalfBytes];
    alignas(16) unsigned long long words[kStages][DecodeList::kRows];
    DecodeRing<kStages> ring;
    float2 stats[4][16];  // of the warps' parts
    int sums[4], found[2];
    int last;  // whether this CTA left the last part of a task
  };
  static_assert(sizeof(Shared) <= 226 * 1024, "shared memory of an SM");
  static_assert(sizeof(float) * WarpParts<kHeadDim>::kFloats == 2 * kHalfBytes, "parts meet in a stage");
  static_assert(sizeof(int) * DecodeParams::kMostTasks <= kStages * 2 * kHalfBytes, "tasks are counted in the ring");
};

template <class Traits>
struct DecodeBlock {
  using Element = typename Traits::Element;
  using Rows = SwizzledRows<Traits::kHeadDim>;
  static constexpr int kHeadDim = Traits::kHeadDim, kStages = Traits::kStages, kWarpKeys = Traits::kWarpKeys;

  typename Traits::Shared& shared;
  const DecodeParams& p;
  int thread, lane, row_warp, key_warp;
  RingPlace<Traits::kStages> at;
  u32 queries[kHeadDim / 4];
  int bit_rows[2];  // of this thread's rows, in mask words
  float scores[kWarpKeys / 2], out[kHeadDim / 2];
  RowStats rows;

  // The A operands of scores; rows and columns that are not there are 0.
  __device__ __forceinline__ void load_queries(const DecodeTask& task) {
    const unsigned short* base = static_cast<const unsigned short*>(p.q) + task.item->q;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = 16 * row_warp + lane / 4 + 8 * i;
      const bool there = r < task.rows;
      const DecodePlace place = task.place_of(there ? r : 0);
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

  __device__ __forceinline__ void forbid_keys(const LoadedTile& tile, u32 stage, int keys) {
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

  __device__ __forceinline__ void add_tile(u32 stage, int keys) {
    const u32 at = shared_address(shared.stages[stage]);
    score_tile(at);
    cap_scores(scores, p.cap_log2);
    forbid_keys(shared.ring.tiles[stage], stage, keys);
    float factor[2];
    if (weigh<true>(scores, rows, factor, p.scale_log2)) rescale(out, factor);
    u32 weights[kWarpKeys / 4];
    pack_weights<Element>(weights, scores);
    add_values(weights, at + Traits::kHalfBytes);
  }

  // `count` tiles, which are on their way. The stage of the last one stays: parts meet in it.
  __device__ __forceinline__ void add_tiles(const DecodeTask& task, int count) {
#pragma unroll 1
    for (int i = 1;; ++i) {
      shared.ring.wait_until_full(at);
      add_tile(at.stage, task.keys);
      if (i == count) break;
      give_stage();
    }
    meet_readers();
  }
  __device__ __forceinline__ void give_stage() {
    shared.ring.have_read(at.stage, lane);
    at.advance();
  }

  __device__ __forceinline__ static void meet_readers() { named_barrier<1, Traits::kRoleThreads>(); }

  __device__ __forceinline__ float* part_memory() const { return reinterpret_cast<float*>(shared.stages[at.stage]); }
  __device__ __forceinline__ WarpParts<kHeadDim> parts() const { return {part_memory(), shared.stats}; }

  __device__ __forceinline__ void leave_part(int task_rows) {
    const int warp = thread / 32;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = lane / 4 + 8 * i;
      if (16 * row_warp + r >= task_rows) break;
#pragma unroll
      for (int j = 0; j < kHeadDim / 8; ++j)
        *reinterpret_cast<float2*>(parts().at(warp, r, 8 * j) + lane % 4 * 2) =
            make_float2(out[4 * j + 2 * i], out[4 * j + 2 * i + 1]);
      if (lane % 4 == 0) shared.stats[warp][r] = make_float2(rows.maximum[i], rows.sum[i]);
    }
    meet_readers();
  }

  // Of row r over the keys of all warps.
  __device__ __forceinline__ RowPart part_of_cta(int r, int column) const {
    RowPart total = no_part(), found[Traits::kKeyWarps];
#pragma unroll
    for (int i = 0; i < Traits::kKeyWarps; ++i) {
      found[i] = parts().part(r / 16 * Traits::kKeyWarps + i, r % 16, column);
      total.maximum = fmaxf(total.maximum, found[i].maximum);
    }
#pragma unroll
    for (int i = 0; i < Traits::kKeyWarps; ++i)
      add_share(total, found[i], share_of(found[i].maximum, total.maximum, p.scale_log2));
    return total;
  }

  // Calls each(row, column) for four columns at a time.
  template <class Each>
  __device__ __forceinline__ void for_columns(const DecodeTask& task, const Each& each) const {
    constexpr int kFours = kHeadDim / 4;
#pragma unroll 2
    for (int i = thread; i < task.rows * kFours; i += Traits::kRoleThreads)
      if (i % kFours * 4 < p.head_dim) each(i / kFours, i % kFours * 4);
  }
};

template <class Traits>
__device__ __forceinline__ DecodeBlock<Traits> block_of(typename Traits::Shared& shared, const DecodeParams& p) {
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
  return {shared, p, thread, thread % 32, warp / Traits::kKeyWarps, warp % Traits::kKeyWarps, {}, {}, {}, {}, {}, {}};
}

}  // namespace stof::cuda
