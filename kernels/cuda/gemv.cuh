// SPDX-License-Identifier: Apache-2.0
// Products of up to 16 rows, as steps of generation have them: what takes time is reading the weight, once. A CTA has a
// few tiles of 8 rows of the weight and all of the inner dimension, which its warps share chunk by chunk. Chunks are
// asked for before the kernel in front has ended, since nobody writes weights; a lane copies what it multiplies itself,
// so that nobody waits for others' copies. Norms of x are computed by each CTA anew: x is little, and at hand.
#pragma once
#include "kernels/cuda/add_rows.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/pieces.cuh"
#include "kernels/shared/gemv.h"

namespace stof::cuda {

// kSlabs: of 8 rows of x.
template <class Storage_, class Element_, int kTiles_, int kSlabs_, bool kNorms_, bool kGate_>
struct GemvTraits {
  using Storage = Storage_;
  using Element = Element_;
  static constexpr int kTiles = kTiles_, kStages = 8 / kTiles;  // as GemvGrid says
  static constexpr bool kNorms = kNorms_, kGate = kGate_;
  static constexpr int kSlabs = kSlabs_, kAhead = kSlabs == 1 ? 2 : 1;  // chunks of x that are asked for early
  static constexpr int kCtas = kTiles == 4 || kSlabs == 2 ? 2 : 3;      // of an SM
  static constexpr int kOutTiles = kGate ? kTiles / 2 : kTiles;  // of a gate, every second tile is what it lets through
  static_assert(!kGate || kTiles % 2 == 0);
};

// Elements of a row that a lane has of a chunk: 8 from `first` on, and 8 that are half a chunk behind them. Products do
// not see the order of the inner dimension, as long as both operands have the same one.
struct GemvPieces {
  int lane = static_cast<int>(threadIdx.x) % 32;
  __device__ __forceinline__ int row() const { return lane / 4; }
  __device__ __forceinline__ int element(int chunk, int half) const {
    return chunk * GemvGrid::kChunk + half * (GemvGrid::kChunk / 2) + lane % 4 * 8;
  }
};

// The weight, as a warp reads it: chunk number n is warp + n * kWarps.
template <class Traits>
struct GemvWeight {
  const GemvParams& p;
  GemvPieces pieces;
  int warp, first_column;  // of out
  u32 ring;                // this lane's part of the warp's

  static constexpr int kPieceBytes = 32 * 16, kStageBytes = 2 * Traits::kTiles * kPieceBytes;

  __device__ __forceinline__ int chunks() const {
    const int all = (p.inner + GemvGrid::kChunk - 1) / GemvGrid::kChunk;
    return max(0, (all - warp + GemvGrid::kWarps - 1) / GemvGrid::kWarps);
  }
  __device__ __forceinline__ int chunk(int n) const { return warp + n * GemvGrid::kWarps; }
  __device__ __forceinline__ u32 place(int stage, int tile, int half) const {
    return ring + stage * kStageBytes + (2 * tile + half) * kPieceBytes;
  }

  // A group of copies, empty past the last chunk; zeros for what does not exist.
  __device__ __forceinline__ void ask(int n, int count) const {
    if (n < count) {
#pragma unroll
      for (int tile = 0; tile < Traits::kTiles; ++tile) {
        const int out_tile = Traits::kGate ? tile / 2 : tile;
        const int column = first_column + out_tile * GemvGrid::kTile + pieces.row();
        const int row = column + (Traits::kGate && tile % 2 == 1 ? p.columns : 0);
        const auto* const from = static_cast<const unsigned short*>(p.weight) + static_cast<long long>(row) * p.inner;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int element = pieces.element(chunk(n), half);
          const bool there = column < p.columns && element < p.inner;
          copy_piece(place(n % Traits::kStages, tile, half), there ? from + element : p.weight, there);
        }
      }
    }
    commit_copies();
  }
  __device__ __forceinline__ uint4 piece(int n, int tile, int half) const {
    uint4 words;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "r"(place(n % Traits::kStages, tile, half))
                 : "memory");
    return words;
  }
};

// Norms of the rows of x, from their moments: by a warp, or several, a row.
template <class Traits>
struct GemvNorms {
  using V = Vector<typename Traits::Storage>;
  const GemvParams& p;
  float (&partial)[GemvGrid::kMostRows][GemvGrid::kWarps];
  float (&means)[GemvGrid::kMostRows];
  const float *scale, *shift;  // in shared memory

  // Warps of a row, where they are more than rows: a power of two. Those of a mean add up twice, and are one.
  __device__ __forceinline__ int warps_each() const {
    if (p.shift != nullptr || p.rows > GemvGrid::kWarps / 2) return 1;
    return p.rows == 1 ? GemvGrid::kWarps : p.rows == 2 ? GemvGrid::kWarps / 2 : GemvGrid::kWarps / 4;
  }

  template <class See>
  __device__ __forceinline__ float sum_of(int row, int part, int each, See&& see) const {
    const auto* const from = static_cast<const unsigned short*>(p.x) + static_cast<long long>(row) * p.inner;
    float sum = 0.f;
#pragma unroll 4
    for (int i = (part * 32 + static_cast<int>(threadIdx.x) % 32) * 8; i < p.inner; i += each * 32 * 8) {
      float x[V::kCount];
      V::unpack(*reinterpret_cast<const uint4*>(from + i), x);
#pragma unroll
      for (int e = 0; e < V::kCount; ++e) sum += see(x[e]);
    }
    return warp_sum(sum);
  }

  __device__ __forceinline__ void measure(int warp) const {
    const int each = warps_each(), part = warp % each;
    for (int row = warp / each; row < p.rows; row += GemvGrid::kWarps / each) {
      float mean = 0.f;
      if (p.shift != nullptr) mean = sum_of(row, part, each, [](float x) { return x; }) / static_cast<float>(p.inner);
      const float squares = sum_of(row, part, each, [&](float x) { return (x - mean) * (x - mean); });
      if (threadIdx.x % 32 == 0) partial[row][part] = squares, means[row] = mean;
    }
  }
  // Of every part, in the same order.
  __device__ __forceinline__ float factor_of(int row) const {
    float squares = 0.f;
    for (int part = 0; part < warps_each(); ++part) squares += partial[row][part];
    return rsqrtf(squares / static_cast<float>(p.inner) + p.epsilon);
  }

  // Rounded, as a norm by itself stores it.
  __device__ __forceinline__ uint4 apply(const uint4& words, int element, float mean, float factor) const {
    float x[V::kCount], weights[V::kCount], shifts[V::kCount] = {};
    V::unpack(words, x);
    load_floats(scale + element, weights);
    if (p.shift != nullptr) load_floats(shift + element, shifts);
#pragma unroll
    for (int i = 0; i < V::kCount; ++i) x[i] = __fmaf_rn((x[i] - mean) * factor, weights[i], shifts[i]);
    using Storage = typename Traits::Storage;
    return {Storage::store_pair(x[0], x[1]), Storage::store_pair(x[2], x[3]), Storage::store_pair(x[4], x[5]),
            Storage::store_pair(x[6], x[7])};
  }
};

// The rows of x that a lane has, 8 apart, as they are stored: of one chunk, or of some that are on their way.
template <class Traits>
struct GemvRows {
  const GemvParams& p;
  const GemvNorms<Traits>& norms;
  GemvPieces pieces;
  float mean[Traits::kSlabs] = {}, factor[Traits::kSlabs] = {};
  uint4 words[Traits::kAhead + 1][2][Traits::kSlabs];

  __device__ __forceinline__ int row(int slab) const { return pieces.row() + 8 * slab; }
  __device__ __forceinline__ bool has(int slab, int element) const { return row(slab) < p.rows && element < p.inner; }
  __device__ __forceinline__ void read_norms() {
#pragma unroll
    for (int slab = 0; slab < Traits::kSlabs; ++slab)
      if (row(slab) < p.rows) mean[slab] = norms.means[row(slab)], factor[slab] = norms.factor_of(row(slab));
  }
  // Zeros for what does not exist.
  __device__ __forceinline__ void ask(int buffer, int chunk) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int slab = 0; slab < Traits::kSlabs; ++slab) {
        const int element = pieces.element(chunk, half);
        const auto* const from = static_cast<const unsigned short*>(p.x) + static_cast<long long>(row(slab)) * p.inner;
        words[buffer][half][slab] = has(slab, element) ? *reinterpret_cast<const uint4*>(from + element) : uint4{};
      }
  }
  __device__ __forceinline__ void advance() {
#pragma unroll
    for (int buffer = 0; buffer < Traits::kAhead; ++buffer)
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int slab = 0; slab < Traits::kSlabs; ++slab) words[buffer][half][slab] = words[buffer + 1][half][slab];
  }
  // Of the first buffer, normed where there is a norm.
  __device__ __forceinline__ uint4 piece(int chunk, int half, int slab) const {
    const int element = pieces.element(chunk, half);
    if constexpr (Traits::kNorms)
      return has(slab, element) ? norms.apply(words[0][half][slab], element, mean[slab], factor[slab]) : uint4{};
    else return words[0][half][slab];
  }
};

// What warps have summed up, of a CTA's tiles.
template <class Traits>
struct GemvSums {
  static constexpr int kBytesOfWarp = Traits::kTiles * GemvGrid::kMostRows * GemvGrid::kTile * 4;
  const unsigned char* shared;
  int stride;  // bytes between warps

  __device__ __forceinline__ float2 pair(int tile, int row, int column) const {
    float2 sum{};
#pragma unroll
    for (int warp = 0; warp < GemvGrid::kWarps; ++warp) {
      const auto* const sums = reinterpret_cast<const float*>(shared + warp * stride);
      const float2 more =
          *reinterpret_cast<const float2*>(sums + (tile * GemvGrid::kMostRows + row) * GemvGrid::kTile + column);
      sum.x += more.x, sum.y += more.y;
    }
    return sum;
  }
};

// Two columns of a row: a thread's, in the end.
template <class Traits>
struct GemvResult {
  using Storage = typename Traits::Storage;
  static constexpr int kPairs = GemvGrid::kTile / 2 * Traits::kOutTiles;  // of a row
  static_assert(kPairs * GemvGrid::kMostRows <= GemvGrid::kThreads);
  const GemvParams& p;
  int row = static_cast<int>(threadIdx.x) / kPairs, within = static_cast<int>(threadIdx.x) % kPairs * 2;
  int column;
  u32 residual = 0;
  float2 bias{}, other_bias{};

  __device__ __forceinline__ bool exists() const { return row < p.rows && column < p.columns; }
  __device__ __forceinline__ long long place() const { return static_cast<long long>(row) * p.columns + column; }
  __device__ __forceinline__ void read_bias() {
    if (p.bias == nullptr || !exists()) return;
    bias = *reinterpret_cast<const float2*>(p.bias + column);
    if constexpr (Traits::kGate) other_bias = *reinterpret_cast<const float2*>(p.bias + p.columns + column);
  }
  __device__ __forceinline__ void read_residual() {
    if (p.residual == nullptr || !exists()) return;
    residual = *reinterpret_cast<const u32*>(static_cast<const unsigned short*>(p.residual) + place());
  }
  __device__ __forceinline__ void write(const GemvSums<Traits>& sums) const {
    if (!exists()) return;
    const int tile = within / GemvGrid::kTile, inside = within % GemvGrid::kTile;
    const float2 sum = sums.pair(Traits::kGate ? 2 * tile : tile, row, inside);
    float out[2] = {sum.x + bias.x, sum.y + bias.y}, more[2];
    activate<Storage>(p.activation, out);
    if constexpr (Traits::kGate) {
      const float2 other = sums.pair(2 * tile + 1, row, inside);
      out[0] *= other.x + other_bias.x, out[1] *= other.y + other_bias.y;
    }
    Storage::load_pair(residual, more[0], more[1]);
    auto* const to = static_cast<unsigned short*>(p.out) + place();
    *reinterpret_cast<u32*>(to) = Storage::store_pair(out[0] + more[0], out[1] + more[1]);
  }
};

template <class Traits>
__device__ __forceinline__ void multiply_chunk(const GemvWeight<Traits>& weight, const GemvRows<Traits>& rows, int n,
                                               float (&sums)[4 * Traits::kTiles]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint4 low = rows.piece(weight.chunk(n), half, 0);
    uint4 high{};
    if constexpr (Traits::kSlabs == 2) high = rows.piece(weight.chunk(n), half, 1);
    const u32 first[4] = {low.x, high.x, low.y, high.y}, second[4] = {low.z, high.z, low.w, high.w};
#pragma unroll
    for (int tile = 0; tile < Traits::kTiles; ++tile) {
      const uint4 w = weight.piece(n, tile, half);
      multiply_add<typename Traits::Element>(sums + 4 * tile, first, w.x, w.y);
      multiply_add<typename Traits::Element>(sums + 4 * tile, second, w.z, w.w);
    }
  }
}

template <class Traits>
__device__ __forceinline__ void store_sums(const float (&sums)[4 * Traits::kTiles], unsigned char* of_warp) {
  auto* const to = reinterpret_cast<float*>(of_warp);
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int tile = 0; tile < Traits::kTiles; ++tile)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = tile * GemvGrid::kMostRows + lane / 4 + 8 * half;
      *reinterpret_cast<float2*>(to + row * GemvGrid::kTile + lane % 4 * 2) = {sums[4 * tile + 2 * half],
                                                                               sums[4 * tile + 2 * half + 1]};
    }
}

// Grid: {columns / (kTile * kOutTiles)}. Shared memory: kChunkBytes, and a norm's vectors.
// Needs: columns and inner multiples of 8, at most kMostRows rows.
template <class Traits>
__global__ void __launch_bounds__(GemvGrid::kThreads, Traits::kCtas) gemv_kernel(const __grid_constant__ GemvParams p) {
  extern __shared__ __align__(128) unsigned char raw[];
  __shared__ float partial[GemvGrid::kMostRows][GemvGrid::kWarps], means[GemvGrid::kMostRows];
  constexpr int kRingBytes = GemvGrid::kChunkBytes / GemvGrid::kWarps;
  static_assert(kRingBytes == Traits::kStages * GemvWeight<Traits>::kStageBytes);
  static_assert(GemvSums<Traits>::kBytesOfWarp <= kRingBytes);
  const int warp = uniform(static_cast<int>(threadIdx.x) / 32);
  const GemvPieces pieces;
  const int first_column = static_cast<int>(blockIdx.x) * GemvGrid::kTile * Traits::kOutTiles;
  unsigned char* const of_warp = raw + warp * kRingBytes;
  const GemvWeight<Traits> weight{p, pieces, warp, first_column, shared_address(of_warp) + pieces.lane * 16};
#if __CUDA_ARCH__ >= 900
  allow_next_grid();  // it asks for its weights then
#endif
  const int chunks = weight.chunks();
#pragma unroll
  for (int n = 0; n < Traits::kStages; ++n) weight.ask(n, chunks);
  GemvResult<Traits> result{p};
  result.column = first_column + result.within;
  result.read_bias();
  float* const scale = reinterpret_cast<float*>(raw + GemvGrid::kChunkBytes);
  const GemvNorms<Traits> norms{p, partial, means, scale, scale + p.inner};
  if constexpr (Traits::kNorms)
    for (int i = static_cast<int>(threadIdx.x) * 4; i < p.inner; i += GemvGrid::kThreads * 4) {
      *reinterpret_cast<float4*>(scale + i) = *reinterpret_cast<const float4*>(p.scale + i);
      if (p.shift != nullptr)
        *reinterpret_cast<float4*>(scale + p.inner + i) = *reinterpret_cast<const float4*>(p.shift + i);
    }
#if __CUDA_ARCH__ >= 900
  wait_for_previous_grid();
#endif
  result.read_residual();
  GemvRows<Traits> rows{p, norms, pieces};
#pragma unroll
  for (int n = 0; n < Traits::kAhead; ++n) rows.ask(n, weight.chunk(n));
  if constexpr (Traits::kNorms) {
    norms.measure(warp);
    __syncthreads();
    rows.read_norms();
  }
  float sums[4 * Traits::kTiles] = {};
  for (int n = 0; n < chunks; ++n) {
    rows.ask(Traits::kAhead, weight.chunk(n + Traits::kAhead));
    wait_for_copies_but<Traits::kStages - 1>();
    multiply_chunk(weight, rows, n, sums);
    weight.ask(n + Traits::kStages, chunks);
    rows.advance();
  }
  wait_for_copies();
  __syncwarp();  // sums lie where the whole warp's chunks were
  store_sums<Traits>(sums, of_warp);
  __syncthreads();
  result.write({raw, kRingBytes});
}

}  // namespace stof::cuda
