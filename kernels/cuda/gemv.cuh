// SPDX-License-Identifier: Apache-2.0
// Products of up to 16 rows, as steps of generation have them: what takes time is reading the weight, once. A CTA has a
// few tiles of 8 rows of the weight at a time and all of the inner dimension, which its warps share chunk by chunk; as
// many CTAs as stay on the GPU go through all tiles. Chunks are asked for before the kernel in front has ended, since
// nobody writes weights; a lane copies what it multiplies itself, so that nobody waits for others' copies. All of x is
// brought into shared memory first, and normed there where there is a norm.
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
  static constexpr int kSlabs = kSlabs_;
  static constexpr int kOutTiles = kGate ? kTiles / 2 : kTiles;  // of a gate, every second tile is what it lets through
  static constexpr int kColumns = kOutTiles * GemvGrid::kTile;   // of out
  static constexpr int kCtas = kTiles * kSlabs == 8 ? 2 : GemvGrid::kMostCtas;  // of an SM
  static_assert(!kGate || kTiles % 2 == 0);
};

__device__ __forceinline__ uint4 shared_piece(u32 address) {
  uint4 words;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(address)
               : "memory");
  return words;
}
__device__ __forceinline__ void store_piece(u32 address, const uint4& words) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words.x), "r"(words.y), "r"(words.z),
               "r"(words.w)
               : "memory");
}

// Of a chunk, a lane multiplies 8 elements from 8 (lane % 4) on, and as many half a chunk behind them, of row lane / 4
// of either operand: products do not see the order of the inner dimension, as long as both have the same one.
constexpr int kHalfChunk = GemvGrid::kChunk / 2, kPieceBytes = 16;

// The weight, as a warp reads it: its chunks of the CTA's first tiles, those of the next ones, and so on.
template <class Traits>
struct GemvWeight {
  static constexpr int kStageBytes = 2 * Traits::kTiles * 32 * kPieceBytes;
  const GemvParams& p;
  int lane, warp, chunks;  // of the warp, in a row of the weight
  u32 ring;                // this lane's part of the warp's
  int column;              // of out, where the tiles begin that are asked for
  int asked = 0, stage = 0, taken = 0;

  __device__ __forceinline__ u32 place(int at, int tile, int half) const {
    return ring + at * kStageBytes + (2 * tile + half) * 32 * kPieceBytes;
  }

  // The next chunk: a group of copies, empty past the last one; zeros for what does not exist.
  __device__ __forceinline__ void ask() {
    if (column < p.columns && chunks > 0) {
      const int element = (warp + asked * GemvGrid::kWarps) * GemvGrid::kChunk + lane % 4 * 8;
#pragma unroll
      for (int tile = 0; tile < Traits::kTiles; ++tile) {
        const int of_out = column + (Traits::kGate ? tile / 2 : tile) * GemvGrid::kTile + lane / 4;
        const int row = of_out + (Traits::kGate && tile % 2 == 1 ? p.columns : 0);
        const auto* const from = static_cast<const unsigned short*>(p.weight) + static_cast<long long>(row) * p.inner;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int at = element + half * kHalfChunk;
          const bool there = of_out < p.columns && at < p.inner;
          copy_piece(place(stage, tile, half), there ? from + at : p.weight, there);
        }
      }
      stage = (stage + 1) % Traits::kStages;
      if (++asked == chunks) asked = 0, column += static_cast<int>(gridDim.x) * Traits::kColumns;
    }
    commit_copies();
  }
  // Of the chunk that was asked for first, until it is left.
  __device__ __forceinline__ uint4 piece(int tile, int half) const { return shared_piece(place(taken, tile, half)); }
  __device__ __forceinline__ void leave() { taken = (taken + 1) % Traits::kStages; }
};

// x in shared memory, as lanes multiply it: of each half of a chunk the pieces of its first row, of the second, ...
// Rows are brought there and normed by a warp each, or by several where they are fewer than warps.
template <class Traits>
struct GemvRows {
  using V = Vector<typename Traits::Storage>;
  const GemvParams& p;
  u32 shared;
  int lane, warp;
  float (&partial)[GemvGrid::kMostRows][GemvGrid::kWarps];

  __device__ __forceinline__ u32 place(int half_chunk, int row, int piece) const {
    return shared + ((half_chunk * p.rows + row) * 4 + piece) * kPieceBytes;
  }
  __device__ __forceinline__ u32 place_of(int row, int element) const {
    return place(element / kHalfChunk, row, element % kHalfChunk / 8);
  }
  // Zeros for rows that do not exist.
  __device__ __forceinline__ uint4 piece(int chunk, int half, int slab) const {
    const int row = lane / 4 + slab * GemvGrid::kSlabRows;
    return row < p.rows ? shared_piece(place(2 * chunk + half, row, lane % 4)) : uint4{};
  }

  // Warps of a row: a power of two. A mean would need two exchanges between them: its row has one.
  __device__ __forceinline__ int warps_each() const {
    if ((Traits::kNorms && p.shift != nullptr) || p.rows > GemvGrid::kWarps / 2) return 1;
    return p.rows == 1 ? GemvGrid::kWarps : p.rows == 2 ? GemvGrid::kWarps / 2 : GemvGrid::kWarps / 4;
  }
  // see(row): of the rows that this warp has, or has a part of.
  template <class See>
  __device__ __forceinline__ void for_each_row(See&& see) const {
    const int each = warps_each();
    for (int row = warp / each; row < p.rows; row += GemvGrid::kWarps / each) see(row);
  }
  // see(element): of a row, where this lane's pieces of it begin.
  template <class See>
  __device__ __forceinline__ void for_each_piece(int end, See&& see) const {
    const int each = warps_each();
#pragma unroll 4
    for (int element = (warp % each * 32 + lane) * 8; element < end; element += each * 32 * 8) see(element);
  }

  // From memory, zeros behind the last element; and the moments of the rows.
  __device__ __forceinline__ void bring(float (&means)[GemvGrid::kMostRows]) const {
    const int padded = (p.inner + GemvGrid::kChunk - 1) / GemvGrid::kChunk * GemvGrid::kChunk;
    for_each_row([&](int row) {
      const auto* const from = static_cast<const unsigned short*>(p.x) + static_cast<long long>(row) * p.inner;
      float sum = 0.f;
      for_each_piece(padded, [&](int element) {
        const uint4 words = element < p.inner ? V::read(from + element) : uint4{};
        store_piece(place_of(row, element), words);
        if constexpr (Traits::kNorms) sum += p.shift == nullptr ? sum_of(words, 0.f, true) : sum_of(words, 0.f, false);
      });
      if constexpr (Traits::kNorms) {
        sum = warp_sum(sum);
        float mean = 0.f;
        if (p.shift != nullptr) {
          mean = sum / static_cast<float>(p.inner), sum = 0.f;
          for_each_piece(p.inner,
                         [&](int element) { sum += sum_of(shared_piece(place_of(row, element)), mean, true); });
          sum = warp_sum(sum);
        }
        if (lane == 0) partial[row][warp % warps_each()] = sum, means[row] = mean;
      }
    });
  }
  static __device__ __forceinline__ float sum_of(const uint4& words, float mean, bool squared) {
    float x[V::kCount], sum = 0.f;
    V::unpack(words, x);
#pragma unroll
    for (int i = 0; i < V::kCount; ++i) {
      const float distance = x[i] - mean;
      sum += squared ? distance * distance : distance;
    }
    return sum;
  }

  // Behind a barrier: what this lane has brought, rounded as a norm by itself stores it.
  __device__ __forceinline__ void norm(const float (&means)[GemvGrid::kMostRows], const float* scale,
                                       const float* shift) const {
    for_each_row([&](int row) {
      float squares = 0.f;
      for (int part = 0; part < warps_each(); ++part) squares += partial[row][part];  // in the same order each time
      const float mean = means[row], factor = rsqrtf(squares / static_cast<float>(p.inner) + p.epsilon);
      for_each_piece(p.inner, [&](int element) {
        float x[V::kCount], weights[V::kCount], shifts[V::kCount] = {};
        V::unpack(shared_piece(place_of(row, element)), x);
        load_floats(scale + element, weights);
        if (p.shift != nullptr) load_floats(shift + element, shifts);
#pragma unroll
        for (int i = 0; i < V::kCount; ++i) x[i] = __fmaf_rn((x[i] - mean) * factor, weights[i], shifts[i]);
        using Storage = typename Traits::Storage;
        store_piece(place_of(row, element), {Storage::store_pair(x[0], x[1]), Storage::store_pair(x[2], x[3]),
                                             Storage::store_pair(x[4], x[5]), Storage::store_pair(x[6], x[7])});
      });
    });
  }
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
    bias = *reinterpret_cast<const float2*>(p.bias + column);
    if constexpr (Traits::kGate) other_bias = *reinterpret_cast<const float2*>(p.bias + p.columns + column);
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
    *reinterpret_cast<u32*>(static_cast<unsigned short*>(p.out) + place()) =
        Storage::store_pair(out[0] + more[0], out[1] + more[1]);
  }
};

template <class Traits>
__device__ __forceinline__ void multiply_chunk(const GemvWeight<Traits>& weight, const GemvRows<Traits>& rows,
                                               int chunk, float (&sums)[4 * Traits::kTiles]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint4 low = rows.piece(chunk, half, 0);
    uint4 high{};
    if constexpr (Traits::kSlabs == 2) high = rows.piece(chunk, half, 1);
    const u32 first[4] = {low.x, high.x, low.y, high.y}, second[4] = {low.z, high.z, low.w, high.w};
#pragma unroll
    for (int tile = 0; tile < Traits::kTiles; ++tile) {
      const uint4 w = weight.piece(tile, half);
      multiply_add<typename Traits::Element>(sums + 4 * tile, first, w.x, w.y);
      multiply_add<typename Traits::Element>(sums + 4 * tile, second, w.z, w.w);
    }
  }
}

// Grid: at most {columns / kColumns}. Shared memory: chunks, sums, x, and a norm's vectors, as GemvGrid has them.
// Needs: columns and inner multiples of 8, at most kSlabs * 8 rows.
template <class Traits>
__global__ void __launch_bounds__(GemvGrid::kThreads, Traits::kCtas) gemv_kernel(const __grid_constant__ GemvParams p) {
  extern __shared__ __align__(128) unsigned char raw[];
  __shared__ float partial[GemvGrid::kMostRows][GemvGrid::kWarps], means[GemvGrid::kMostRows];
  constexpr int kRingBytes = GemvGrid::kChunkBytes / GemvGrid::kWarps,
                kSumBytes = GemvGrid::kWarps * GemvSums<Traits>::kOfWarp * 4;
  static_assert(kRingBytes == Traits::kStages * GemvWeight<Traits>::kStageBytes);
  const int warp = uniform(static_cast<int>(threadIdx.x) / 32), lane = static_cast<int>(threadIdx.x) % 32;
  const int all = (p.inner + GemvGrid::kChunk - 1) / GemvGrid::kChunk;
  const int chunks = max(0, (all - warp + GemvGrid::kWarps - 1) / GemvGrid::kWarps);
  const int first_column = static_cast<int>(blockIdx.x) * Traits::kColumns;
#if __CUDA_ARCH__ >= 900
  allow_next_grid();  // it asks for its weights then
#endif
  GemvWeight<Traits> weight{
      p, lane, warp, chunks, shared_address(raw) + warp * kRingBytes + lane * kPieceBytes, first_column};
#pragma unroll
  for (int n = 0; n < Traits::kStages; ++n) weight.ask();
  const GemvSums<Traits> total{reinterpret_cast<float*>(raw + GemvGrid::kChunkBytes)};
  unsigned char* const x = raw + GemvGrid::kChunkBytes + kSumBytes;
  float* const scale = reinterpret_cast<float*>(x + p.rows * all * GemvGrid::kChunk * 2);
  if constexpr (Traits::kNorms)
    for (int i = static_cast<int>(threadIdx.x) * 4; i < p.inner; i += GemvGrid::kThreads * 4) {
      *reinterpret_cast<float4*>(scale + i) = *reinterpret_cast<const float4*>(p.scale + i);
      if (p.shift != nullptr)
        *reinterpret_cast<float4*>(scale + p.inner + i) = *reinterpret_cast<const float4*>(p.shift + i);
    }
#if __CUDA_ARCH__ >= 900
  wait_for_previous_grid();
#endif
  const GemvRows<Traits> rows{p, shared_address(x), lane, warp, partial};
  rows.bring(means);
  __syncthreads();
  if constexpr (Traits::kNorms) {
    rows.norm(means, scale, scale + p.inner);
    __syncthreads();
  }
  const int step = static_cast<int>(gridDim.x) * Traits::kColumns;
  for (int column = first_column; column < p.columns; column += step) {
    GemvResult<Traits> result{p};
    result.read(column);
    float sums[4 * Traits::kTiles] = {};
    for (int n = 0; n < chunks; ++n) {
      wait_for_copies_but<Traits::kStages - 1>();
      multiply_chunk(weight, rows, warp + n * GemvGrid::kWarps, sums);
      weight.leave();
      weight.ask();
    }
    if (column != first_column) __syncthreads();  // whoever still reads the sums of the tiles before
    total.store(warp, lane, sums);
    __syncthreads();
    result.write(total);
  }
}

}  // namespace stof::cuda
