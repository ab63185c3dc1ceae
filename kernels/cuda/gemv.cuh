// SPDX-License-Identifier: Apache-2.0
// Products of up to 16 rows, as steps of generation have them: what takes time is reading the weight, once. A CTA has a
// few tiles of 8 rows of the weight at a time and all of the inner dimension, which its warps share chunk by chunk; as
// many CTAs as stay on the GPU go through all tiles. Chunks are asked for before the kernel in front has ended, since
// nobody writes weights; a lane copies what it multiplies itself, so that nobody waits for others' copies. All of x is
// brought into shared memory first, and normed there where there is a norm.
#pragma once
#include "kernels/cuda/add_rows.cuh"
#include "kernels/cuda/gemm_traits.cuh"
#include "kernels/cuda/gemv_rows.cuh"
#include "kernels/shared/gemv.h"

namespace stof::cuda {

// kSlabs: of 8 rows of x. kParts: bits of GemvParts.
template <class Element_, int kTiles_, int kSlabs_, int kParts>
struct GemvTraits {
  using Element = Element_;
  using Storage = typename StorageOf<Element>::Type;
  static constexpr int kTiles = kTiles_, kStages = 8 / kTiles;  // as GemvGrid says
  static constexpr bool kNorms = kParts & kGemvNorm, kGate = kParts & kGemvGate;
  static constexpr int kSlabs = kSlabs_;
  static constexpr int kOutTiles = kGate ? kTiles / 2 : kTiles;  // of a gate, every second tile is what it lets through
  static constexpr int kColumns = kOutTiles * GemvGrid::kTile;   // of out
  static constexpr int kCtas = GemvGrid::kCtas[kTiles];
  static_assert(!kGate || kTiles % 2 == 0);
};

// The weight, as a warp reads it: its chunks of the CTA's first tiles, those of the next ones, and so on. Of tiles that
// end behind the last column the last row stands for what does not exist; of a gate, the last tile of it.
template <class Traits>
struct GemvWeight {
  static constexpr int kTile = GemvGrid::kTile, kLanePieceBytes = 16,
                       kStageBytes = 2 * Traits::kTiles * 32 * kLanePieceBytes;
  const GemvParams& p;
  int lane, first;          // element of a row that the lane begins at
  u32 ring;                 // this lane's part of the warp's
  int column;               // of out, where the tiles begin that are asked for
  bool has_chunks = false;  // of a row
  int element = 0;          // that is asked for next
  int stage = 0, taken = 0;
  const unsigned short* rows[Traits::kTiles] = {};

  __device__ __forceinline__ void begin_tiles() {
    element = first;
    has_chunks = first - lane % 4 * 8 < p.inner && column < p.columns;
#pragma unroll
    for (int tile = 0; tile < Traits::kTiles; ++tile) {
      if (Traits::kGate && tile % 2 == 1) {  // what the tile in front lets through lies right behind it
        rows[tile] = rows[tile - 1] + kTile * static_cast<long long>(p.inner);
        continue;
      }
      const int row = Traits::kGate ? min(2 * column + tile * kTile, 2 * (p.columns - kTile)) + lane / 4
                                    : min(column + tile * kTile + lane / 4, p.columns - 1);
      rows[tile] = static_cast<const unsigned short*>(p.weight) + static_cast<long long>(row) * p.inner;
    }
  }
  __device__ __forceinline__ u32 place(int at, int tile, int half) const {
    return ring + at * kStageBytes + (2 * tile + half) * 32 * kLanePieceBytes;
  }

  // The next chunk: a group of copies, empty past the last one; zeros behind the end of a row.
  __device__ __forceinline__ void ask() {
    if (has_chunks) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = element + half * kHalfChunk;
        const bool there = at < p.inner;
#pragma unroll
        for (int tile = 0; tile < Traits::kTiles; ++tile)
          copy_piece(place(stage, tile, half), rows[tile] + (there ? at : 0), there);
      }
      stage = (stage + 1) % Traits::kStages;
      element += GemvGrid::kWarps * GemvGrid::kChunk;
      if (element - lane % 4 * 8 >= p.inner) column += static_cast<int>(gridDim.x) * Traits::kColumns, begin_tiles();
    }
    commit_copies();
  }
  // Of the chunk that was asked for first, until it is left.
  __device__ __forceinline__ uint4 piece(int tile, int half) const { return shared_piece(place(taken, tile, half)); }
  __device__ __forceinline__ void leave() { taken = (taken + 1) % Traits::kStages; }
};

// What warps have summed up of the tiles: [warp][tile][row][column of the tile].
template <class Traits>
struct GemvSums {
  static constexpr int kRows = Traits::kSlabs * GemvGrid::kSlabRows;
  static constexpr int kOfWarp = Traits::kTiles * kRows * GemvGrid::kTile;
  float* shared;

  __device__ __forceinline__ void store(int warp, int lane, const float (&sums)[4 * Traits::kTiles]) const {
#pragma unroll
    for (int tile = 0; tile < Traits::kTiles; ++tile)
#pragma unroll
      for (int slab = 0; slab < Traits::kSlabs; ++slab) {
        const int row = tile * kRows + lane / 4 + GemvGrid::kSlabRows * slab;
        *reinterpret_cast<float2*>(shared + warp * kOfWarp + row * GemvGrid::kTile + lane % 4 * 2) = {
            sums[4 * tile + 2 * slab], sums[4 * tile + 2 * slab + 1]};
      }
  }
  __device__ __forceinline__ float2 pair(int tile, int row, int column) const {
    const float* const first = shared + (tile * kRows + row) * GemvGrid::kTile + column;
    float2 sum{};
#pragma unroll
    for (int warp = 0; warp < GemvGrid::kWarps; ++warp) {
      const float2 more = *reinterpret_cast<const float2*>(first + warp * kOfWarp);
      sum.x += more.x, sum.y += more.y;
    }
    return sum;
  }
};

// Two columns of a row of the tiles: a thread's.
template <class Traits>
struct GemvResult {
  using Storage = typename Traits::Storage;
  static constexpr int kPairs = Traits::kColumns / 2;  // of a row
  static_assert(kPairs * Traits::kSlabs * GemvGrid::kSlabRows <= GemvGrid::kThreads);
  const GemvParams& p;
  int row = static_cast<int>(threadIdx.x) / kPairs, within = static_cast<int>(threadIdx.x) % kPairs * 2;
  int column = 0;
  u32 residual = 0;
  float factor = 1.f;  // of the row's sums
  float2 bias{}, other_bias{};

  __device__ __forceinline__ bool exists() const { return row < p.rows && column < p.columns; }
  __device__ __forceinline__ long long place() const { return static_cast<long long>(row) * p.columns + column; }
  // What is added, of the tiles that begin there.
  __device__ __forceinline__ void read(int first_column) {
    column = first_column + within;
    if (!exists()) return;
    if (p.residual != nullptr)
      residual = *reinterpret_cast<const u32*>(static_cast<const unsigned short*>(p.residual) + place());
    if (p.bias == nullptr) return;
    const float* const from = p.bias + column + (Traits::kGate ? column / GemvGrid::kTile * GemvGrid::kTile : 0);
    bias = *reinterpret_cast<const float2*>(from);
    if constexpr (Traits::kGate) other_bias = *reinterpret_cast<const float2*>(from + GemvGrid::kTile);
  }
  __device__ __forceinline__ void write(const GemvSums<Traits>& sums) const {
    if (!exists()) return;
    const int tile = within / GemvGrid::kTile, inside = within % GemvGrid::kTile;
    const float2 sum = sums.pair(Traits::kGate ? 2 * tile : tile, row, inside);
    float out[2] = {__fmaf_rn(sum.x, factor, bias.x), __fmaf_rn(sum.y, factor, bias.y)}, more[2];
    activate<Storage>(p.activation, out);
    if constexpr (Traits::kGate) {
      const float2 other = sums.pair(2 * tile + 1, row, inside);
      out[0] *= __fmaf_rn(other.x, factor, other_bias.x), out[1] *= __fmaf_rn(other.y, factor, other_bias.y);
    }
    Storage::load_pair(residual, more[0], more[1]);
    *reinterpret_cast<u32*>(static_cast<unsigned short*>(p.out) + place()) =
        Storage::store_pair(out[0] + more[0], out[1] + more[1]);
  }
};

// A half of a chunk after the other, into sums of their own where tiles are few: products wait for those before them.
template <class Traits>
struct GemvAccumulator {
  static constexpr int kSets = Traits::kTiles == 4 ? 1 : 2;
  float sums[kSets][4 * Traits::kTiles] = {};

  __device__ __forceinline__ void multiply(const GemvWeight<Traits>& weight, const GemvRows<Traits>& rows, int chunk) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint4 low = rows.piece(2 * chunk + half, 0);
      uint4 high{};
      if constexpr (Traits::kSlabs == 2) high = rows.piece(2 * chunk + half, 1);
      const u32 first[4] = {low.x, high.x, low.y, high.y}, second[4] = {low.z, high.z, low.w, high.w};
      float* const to = sums[half % kSets];
#pragma unroll
      for (int tile = 0; tile < Traits::kTiles; ++tile) {
        const uint4 w = weight.piece(tile, half);
        multiply_add<typename Traits::Element>(to + 4 * tile, first, w.x, w.y);
        multiply_add<typename Traits::Element>(to + 4 * tile, second, w.z, w.w);
      }
    }
  }
  __device__ __forceinline__ const float (&all())[4 * Traits::kTiles] {
    if constexpr (kSets == 2)
#pragma unroll
      for (int i = 0; i < 4 * Traits::kTiles; ++i) sums[0][i] += sums[1][i];
    return sums[0];
  }
};

// All of the CTA's tiles, with x at hand. total: of shared memory; chunks: of the warp, in a row of the weight.
template <class Traits>
__device__ __forceinline__ void go_through_tiles(const GemvParams& p, const GemvRows<Traits>& rows,
                                                 GemvWeight<Traits>& weight, const GemvSums<Traits>& total,
                                                 int chunks) {
  const int first_column = static_cast<int>(blockIdx.x) * Traits::kColumns;
  const int step = static_cast<int>(gridDim.x) * Traits::kColumns;
  for (int column = first_column; column < p.columns; column += step) {
    GemvResult<Traits> result{p};
    result.read(column);
    if (rows.factor_is_late()) result.factor = rows.factor_of(result.row % GemvGrid::kMostRows);
    GemvAccumulator<Traits> sums;
    for (int n = 0; n < chunks; ++n) {
      wait_for_copies_but<Traits::kStages - 1>();
      sums.multiply(weight, rows, rows.warp + n * GemvGrid::kWarps);
      weight.leave();
      weight.ask();
    }
    if (column != first_column) __syncthreads();  // whoever still reads the sums of the tiles before
    total.store(rows.warp, rows.lane, sums.all());
    __syncthreads();
    result.write(total);
  }
}

// Grid: at most {columns / kColumns}. Shared memory: chunks, sums, x, and a norm's vectors, as GemvGrid has them.
// Needs: columns and inner multiples of 8, at most kSlabs * 8 rows.
template <class Traits>
__global__ void __launch_bounds__(GemvGrid::kThreads, Traits::kCtas) gemv_kernel(const __grid_constant__ GemvParams p) {
  extern __shared__ __align__(128) unsigned char raw[];
  __shared__ __align__(16) GemvMoments moments;
  constexpr int kRingBytes = GemvGrid::kChunkBytes / GemvGrid::kWarps,
                kSumBytes = GemvGrid::kWarps * GemvSums<Traits>::kOfWarp * 4;
  static_assert(kRingBytes == Traits::kStages * GemvWeight<Traits>::kStageBytes);
  const int warp = uniform(static_cast<int>(threadIdx.x) / 32), lane = static_cast<int>(threadIdx.x) % 32;
  const int all = (p.inner + GemvGrid::kChunk - 1) / GemvGrid::kChunk;
  const int chunks = max(0, (all - warp + GemvGrid::kWarps - 1) / GemvGrid::kWarps);
  const int first_column = static_cast<int>(blockIdx.x) * Traits::kColumns;
  const GemvSums<Traits> total{reinterpret_cast<float*>(raw + GemvGrid::kChunkBytes)};
  unsigned char* const x = raw + GemvGrid::kChunkBytes + kSumBytes;
  GemvRows<Traits> rows{.p = p,
                        .moments = moments,
                        .shared = shared_address(x),
                        .lane = lane,
                        .warp = warp,
                        .padded = all * GemvGrid::kChunk};
  rows.begin(reinterpret_cast<float*>(x + p.rows * (2 * all * GemvGrid::kChunk + 64)));
  GemvWeight<Traits> weight{p, lane, warp * GemvGrid::kChunk + lane % 4 * 8,
                            shared_address(raw) + warp * kRingBytes + lane * 16, first_column};
  weight.begin_tiles();
#pragma unroll
  for (int n = 0; n < Traits::kStages; ++n) weight.ask();
  if constexpr (Traits::kNorms) __syncthreads();
  follow_previous_grid();  // the next one asks for its weights from here on: earlier, it would take this one's place
  rows.bring();
  __syncthreads();
  if constexpr (Traits::kNorms)
    if (!rows.factor_is_late()) {
      rows.norm();
      __syncthreads();
    }
  go_through_tiles<Traits>(p, rows, weight, total, chunks);
}

}  // namespace stof::cuda
