// SPDX-License-Identifier: Apache-2.0
// The few rows of x that gemv.cuh multiplies: brought into shared memory by all warps of a CTA, and normed.
#pragma once
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/pieces.cuh"
#include "kernels/shared/gemv.h"

namespace stof::cuda {

// Of a chunk, a lane multiplies 8 elements from 8 (lane % 4) on, and as many half a chunk behind them, of row lane / 4
// of either operand: products do not see the order of the inner dimension, as long as both have the same one.
constexpr int kHalfChunk = GemvGrid::kChunk / 2;

// Sums over a row's parts, and its mean.
struct GemvMoments {
  float partial[GemvGrid::kMostRows][GemvGrid::kWarps], means[GemvGrid::kMostRows];
};
static_assert(sizeof(GemvMoments) <= GemvGrid::kStaticBytes);

// A row is brought by a warp, or by several where rows are fewer than warps. A norm is x - mean, times a factor of the
// row, times a scale, plus a shift. By the root mean square there is no mean: where numbers have the range of fp32, x
// times the scale is what is multiplied, and the factor, known later, is one of the products' sums. Elsewhere x is
// normed where it lies, and rounded as a norm by itself stores it.
template <class Traits>
struct GemvRows {
  using Storage = typename Traits::Storage;
  using V = Vector<Storage>;
  // Pieces that a lane asks for before it stores one; fewer where code is more: all of it runs once, and is fetched.
  static constexpr int kTogether = Traits::kNorms ? 4 : 8;
  const GemvParams& p;
  GemvMoments& moments;
  u32 shared;
  const float *scale, *shift;  // in shared memory
  float inverse;               // 1 / inner
  int lane, warp;
  int padded;     // elements of a row, up to the end of a chunk
  int each_bits;  // of the warps of a row, a power of two

  // Nobody writes them: need not wait for the kernel in front.
  __device__ __forceinline__ void begin(float* vectors) {
    // A mean would need two exchanges between a row's warps: it has one.
    const bool alone = (Traits::kNorms && p.shift != nullptr) || p.rows > 4;
    each_bits = alone ? 0 : p.rows == 1 ? 3 : p.rows == 2 ? 2 : 1;
    inverse = 1.f / static_cast<float>(p.inner);
    scale = vectors, shift = vectors + p.inner;
    if constexpr (Traits::kNorms) {
      for (int i = static_cast<int>(threadIdx.x) * 4; i < p.inner; i += GemvGrid::kThreads * 4) {
        *reinterpret_cast<float4*>(vectors + i) = *reinterpret_cast<const float4*>(p.scale + i);
        if (p.shift != nullptr)
          *reinterpret_cast<float4*>(vectors + p.inner + i) = *reinterpret_cast<const float4*>(p.shift + i);
      }
      if (threadIdx.x < GemvGrid::kMostRows * GemvGrid::kWarps) (&moments.partial[0][0])[threadIdx.x] = 0.f;
    }
  }
  __device__ __forceinline__ bool factor_is_late() const {
    return Traits::kNorms && Storage::kHasWideRange && p.shift == nullptr;
  }

  // From memory, zeros behind the last element. All warps, behind the barrier that follows begin(); a barrier follows.
  __device__ __forceinline__ void bring() const {
    for_each_row([&](int row) {
      const auto* const from = static_cast<const unsigned short*>(p.x) + static_cast<long long>(row) * p.inner;
      float sum = 0.f;
      for (int begin = first_piece(); begin < padded; begin += kTogether * step()) {
        uint4 words[kTogether];
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
          const int element = begin + i * step();
          words[i] = element < p.inner ? V::read(from + element) : uint4{};
        }
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
          const int element = begin + i * step();
          if (element >= padded) break;
          if constexpr (Traits::kNorms) sum += p.shift == nullptr ? squares_of(words[i], 0.f) : sum_of(words[i]);
          store_piece(place(row, element),
                      factor_is_late() && element < p.inner ? scaled(words[i], element) : words[i]);
        }
      }
      if constexpr (Traits::kNorms) keep_moments(row, warp_sum(sum));
    });
  }
  // Behind that barrier, where the factor is not late; another one follows.
  __device__ __forceinline__ void norm() const {
    for_each_row([&](int row) {
      const float mean = moments.means[row], factor = factor_of(row);
      for_each_piece([&](int element) {
        float x[V::kCount], weights[V::kCount], shifts[V::kCount] = {};
        V::unpack(shared_piece(place(row, element)), x);
        load_floats(scale + element, weights);
        if (p.shift != nullptr) load_floats(shift + element, shifts);
#pragma unroll
        for (int i = 0; i < V::kCount; ++i) x[i] = __fmaf_rn((x[i] - mean) * factor, weights[i], shifts[i]);
        store_piece(place(row, element), packed(x));
      });
    });
  }
  __device__ __forceinline__ float factor_of(int row) const {
    float squares[GemvGrid::kWarps];
    load_floats(moments.partial[row], squares);
    const float all = ((squares[0] + squares[1]) + (squares[2] + squares[3])) +
                      ((squares[4] + squares[5]) + (squares[6] + squares[7]));
    return rsqrtf(__fmaf_rn(all, inverse, p.epsilon));
  }

  // What this lane multiplies of a half of a chunk. Zeros for rows that do not exist.
  __device__ __forceinline__ uint4 piece(int half_chunk, int slab) const {
    const int row = lane / 4 + slab * GemvGrid::kSlabRows;
    return row < p.rows ? shared_piece(place(row, half_chunk * kHalfChunk + lane % 4 * 8)) : uint4{};
  }

 private:
  // 64 bytes more than a row needs: lanes of two rows find them in different banks.
  __device__ __forceinline__ u32 place(int row, int element) const {
    return shared + row * (2 * padded + 64) + 2 * element;
  }
  template <class See>
  __device__ __forceinline__ void for_each_row(See&& see) const {
    for (int row = warp >> each_bits; row < p.rows; row += GemvGrid::kWarps >> each_bits) see(row);
  }
  __device__ __forceinline__ int part() const { return warp & ((1 << each_bits) - 1); }
  // Elements of a row where this lane's pieces of it begin, and from one to the next.
  __device__ __forceinline__ int first_piece() const { return (part() * 32 + lane) * 8; }
  __device__ __forceinline__ int step() const { return 32 * 8 << each_bits; }
  template <class See>
  __device__ __forceinline__ void for_each_piece(See&& see) const {
    for (int element = first_piece(); element < p.inner; element += step()) see(element);
  }

  __device__ __forceinline__ void keep_moments(int row, float sum) const {
    float mean = 0.f;
    if (p.shift != nullptr) {
      mean = sum * inverse, sum = 0.f;
      for_each_piece([&](int element) { sum += squares_of(shared_piece(place(row, element)), mean); });
      sum = warp_sum(sum);
    }
    if (lane == 0) moments.partial[row][part()] = sum, moments.means[row] = mean;
  }
  static __device__ __forceinline__ float sum_of(const uint4& words) {
    float x[V::kCount];
    V::unpack(words, x);
    return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
  }
  static __device__ __forceinline__ float squares_of(const uint4& words, float mean) {
    float x[V::kCount], sum[2] = {};
    V::unpack(words, x);
#pragma unroll
    for (int i = 0; i < V::kCount; ++i) sum[i % 2] = __fmaf_rn(x[i] - mean, x[i] - mean, sum[i % 2]);
    return sum[0] + sum[1];
  }
  static __device__ __forceinline__ uint4 packed(const float (&x)[V::kCount]) {
    return {Storage::store_pair(x[0], x[1]), Storage::store_pair(x[2], x[3]), Storage::store_pair(x[4], x[5]),
            Storage::store_pair(x[6], x[7])};
  }
  __device__ __forceinline__ uint4 scaled(const uint4& words, int element) const {
    float x[V::kCount], weights[V::kCount];
    V::unpack(words, x);
    load_floats(scale + element, weights);
#pragma unroll
    for (int i = 0; i < V::kCount; ++i) x[i] *= weights[i];
    return packed(x);
  }
};

}  // namespace stof::cuda
