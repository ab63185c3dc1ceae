// SPDX-License-Identifier: Apache-2.0
// What happens to a sum before it is stored: norm of x, bias, activation, residual, or heads turned by the row's
// position; and the moments of what is stored.
// A thread holds two rows, 8 apart, of each column block of 8: elements {0, 1} of the first, {2, 3} of the second.
#pragma once
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/gemm_traits.cuh"

namespace stof::cuda {

// Of a thread's two rows: what normalises them, value * y + x, and what turns them, from the column `first` of the tile
// on.
struct RowPair {
  float2 x[2], residual[2];
  const float* angles[2];
  int first, of_tile, turned, head_mask;
  __device__ __forceinline__ bool turns(int column) const { return of_tile + column < turned; }
  // In the angles of a position: two column blocks take theirs in turns, so that a thread's four numbers are together.
  __device__ __forceinline__ int place(int column) const {
    const int of_head = (of_tile + column) & head_mask;
    return (of_head & ~15) + 2 * (of_head & 7) + (of_head & 8) / 4;
  }
};

// Whether what precedes the activation hands it half of its argument, which gelu takes: with a norm of x for nothing,
// by its factors, else by the addition of the bias. A gate's two blocks have the factors in common.
template <GemmEpilogue kEpilogue>
constexpr bool kHalved = !kEpilogue.gate && (kEpilogue.activation == kGelu || kEpilogue.activation == kGeluTanh);

// Of x, or of x / 2 where that is handed over.
template <GemmEpilogue kEpilogue, class Storage>
__device__ __forceinline__ float activated(float x) {
  constexpr float kHalf = kHalved<kEpilogue> ? 1.f : 0.5f;
  if constexpr (kEpilogue.activation == kGelu) return gelu_of_half<Storage::kHasWideRange>(kHalf * x);
  else if constexpr (kEpilogue.activation == kGeluTanh) return gelu_tanh_of_half(kHalf * x);
  else if constexpr (kEpilogue.activation == kSilu) return silu_of_finite(x);
  else if constexpr (kEpilogue.activation == kRelu) return relu(x);
  else return x;
}

// Facts of the rows `row` and `row` + 8, of those that this CTA writes, for columns from `first` on.
template <class Traits>
__device__ __forceinline__ RowPair rows_of(const GemmParams& p, const GemmTile& tile,
                                           const typename Traits::Facts& facts, int row, int first) {
  RowPair rows = {};
  rows.first = first, rows.of_tile = tile.column, rows.turned = p.turned, rows.head_mask = p.head_mask;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if constexpr (Traits::kEpilogue.x_norm) rows.x[i] = facts.x_rows[row + 8 * i];
    if constexpr (kHalved<Traits::kEpilogue>) rows.x[i].x *= 0.5f, rows.x[i].y *= 0.5f;
    if constexpr (Traits::kEpilogue.residual_norm) rows.residual[i] = facts.residual_rows[row + 8 * i];
    if constexpr (Traits::kEpilogue.turned)
      rows.angles[i] =
          p.angles + static_cast<long long>(facts.positions[row + 8 * i]) * (p.head_mask + 1) + rows.place(first);
  }
  return rows;
}

// Bias, activation, residual of one column block of one thread, `column` of the tile being its first: sums to values as
// they are stored, in place, and packed by row.
template <class Traits>
__device__ __forceinline__ void finish_added(float* sums, const typename Traits::Facts& facts, int column,
                                             const RowPair& rows, const u32 (&residual)[2], u32 (&stored)[2]) {
  constexpr GemmEpilogue kEpilogue = Traits::kEpilogue;
  using Storage = typename Traits::Storage;
  constexpr bool kShiftWithBias = kEpilogue.residual_norm && Traits::kHasBias && kEpilogue.activation == kNoActivation;
  const auto pair_of = [&](int which) { return *reinterpret_cast<const float2*>(&facts.columns[which][column]); };
  float2 bias = {}, column_sum = {}, scale = {}, shift = {};
  if constexpr (Traits::kHasBias) bias = pair_of(Traits::kBias);
  if constexpr (kHalved<kEpilogue>) bias.x *= 0.5f, bias.y *= 0.5f;
  if constexpr (kEpilogue.x_norm) column_sum = pair_of(Traits::kColumnSum);
  if constexpr (kEpilogue.residual_norm) {
    scale = pair_of(Traits::kScale), shift = pair_of(Traits::kShift);
    // Nothing stands between the two: one addition for both rows.
    if constexpr (kShiftWithBias) bias.x += shift.x, bias.y += shift.y;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float first = sums[2 * i], second = sums[2 * i + 1];
    if constexpr (kEpilogue.x_norm) {
      const float2 row = rows.x[i];
      first = __fmaf_rn(row.y, first, __fmaf_rn(row.x, column_sum.x, bias.x));
      second = __fmaf_rn(row.y, second, __fmaf_rn(row.x, column_sum.y, bias.y));
    } else if constexpr (kHalved<kEpilogue>) {
      first = __fmaf_rn(first, 0.5f, bias.x), second = __fmaf_rn(second, 0.5f, bias.y);
    } else if constexpr (kEpilogue.bias) {
      first += bias.x, second += bias.y;
    }
    first = activated<kEpilogue, Storage>(first), second = activated<kEpilogue, Storage>(second);
    if constexpr (kEpilogue.residual) {
      float one, other;
      Storage::load_pair(residual[i], one, other);
      if constexpr (kEpilogue.residual_norm) {
        const float2 row = rows.residual[i];
        one = __fmaf_rn(one, row.y, row.x) * scale.x, other = __fmaf_rn(other, row.y, row.x) * scale.y;
        if constexpr (!kShiftWithBias) one += shift.x, other += shift.y;
      }
      first += one, second += other;
    }
    stored[i] = Storage::store_pair(first, second);
    if constexpr (kEpilogue.moments) Storage::load_pair(stored[i], sums[2 * i], sums[2 * i + 1]);
  }
}

// Of row i of a thread's two, a column block's sums with the norm of x and the bias.
template <class Traits>
__device__ __forceinline__ float2 product_of(const float* sums, const typename Traits::Facts& facts, int column,
                                             const RowPair& rows, int i) {
  const auto pair_of = [&](int which) { return *reinterpret_cast<const float2*>(&facts.columns[which][column]); };
  float first = sums[2 * i], second = sums[2 * i + 1];
  if constexpr (Traits::kEpilogue.x_norm) {
    const float2 bias = pair_of(Traits::kBias), column_sum = pair_of(Traits::kColumnSum), row = rows.x[i];
    first = __fmaf_rn(row.y, first, __fmaf_rn(row.x, column_sum.x, bias.x));
    second = __fmaf_rn(row.y, second, __fmaf_rn(row.x, column_sum.y, bias.y));
  } else if constexpr (Traits::kEpilogue.bias) {
    const float2 bias = pair_of(Traits::kBias);
    first += bias.x, second += bias.y;
  }
  return make_float2(first, second);
}

// Two column blocks, a gate and what it lets through, to one: activation(first) * second.
template <class Traits>
__device__ __forceinline__ void finish_pair(const float* sums, const typename Traits::Facts& facts, int column,
                                            const RowPair& rows, u32 (&stored)[2]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float2 gate = product_of<Traits>(sums, facts, column, rows, i),
                 let = product_of<Traits>(sums + 4, facts, column + 8, rows, i);
    stored[i] = Traits::Storage::store_pair(activated<Traits::kEpilogue, typename Traits::Storage>(gate.x) * let.x,
                                            activated<Traits::kEpilogue, typename Traits::Storage>(gate.y) * let.y);
  }
}

// Of row i of the two. Where boxes of 64 columns are of one head, what is added to the address is a constant, and two
// column blocks share a load.
template <class Traits>
__device__ __forceinline__ float2 angle_of(const RowPair& rows, int i, int column) {
  if constexpr (!Traits::kBoxOfHead) {
    const float* const from = rows.angles[i] + rows.place(column) - rows.place(rows.first);
    return __ldg(reinterpret_cast<const float2*>(from));
  } else {
    const int further = column - rows.first;
    const float4 two = __ldg(reinterpret_cast<const float4*>(rows.angles[i] + further / 16 * 16));
    return further % 16 == 0 ? make_float2(two.x, two.y) : make_float2(two.z, two.w);
  }
}

// One column block, of q and k turned: the weight's rows come so that a thread has both of a pair. The angle is read
// for v too, where it is not used: a branch would keep loads of several blocks from being under way together.
template <class Traits>
__device__ __forceinline__ void finish_turned(const float* sums, const typename Traits::Facts& facts, int column,
                                              const RowPair& rows, u32 (&stored)[2]) {
  const bool turns = rows.turns(column);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float2 angle = angle_of<Traits>(rows, i, column);
    const float2 pair = product_of<Traits>(sums, facts, column, rows, i);
    const float first = __fmaf_rn(-pair.y, angle.y, pair.x * angle.x);
    const float second = __fmaf_rn(pair.x, angle.y, pair.y * angle.x);
    stored[i] = Traits::Storage::store_pair(turns ? first : pair.x, turns ? second : pair.y);
  }
}

// One column block of any epilogue but a gate's.
template <class Traits>
__device__ __forceinline__ void finish_block(float* sums, const typename Traits::Facts& facts, int column,
                                             const RowPair& rows, const u32 (&residual)[2], u32 (&stored)[2]) {
  if constexpr (Traits::kEpilogue.turned) finish_turned<Traits>(sums, facts, column, rows, stored);
  else finish_added<Traits>(sums, facts, column, rows, residual, stored);
}

// The same in the four threads that share the rows.
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

// Mean, and sum of squared distances from it, of row i of the thread's two over column blocks [0, kCount), of which
// `columns` values exist.
template <int kCount, bool kWhole>
__device__ __forceinline__ float2 moments_of(const float* values, int i, int columns) {
  float sum = 0.f, squares = 0.f;
#pragma unroll
  for (int j = 0; j < kCount; ++j)
    if (kWhole || 8 * j < columns) sum += values[4 * j + 2 * i] + values[4 * j + 2 * i + 1];
  const float mean = kWhole ? quad_sum(sum) * (1.f / (8 * kCount))
                            : __fdividef(quad_sum(sum), static_cast<float>(min(max(columns, 1), 8 * kCount)));
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    if (!kWhole && 8 * j >= columns) continue;
    const float one = values[4 * j + 2 * i] - mean, other = values[4 * j + 2 * i + 1] - mean;
    squares = __fmaf_rn(one, one, __fmaf_rn(other, other, squares));
  }
  return make_float2(mean, quad_sum(squares));
}
template <int kCount>
__device__ __forceinline__ float2 moments_of(const float* values, int i, int columns) {
  return columns >= 8 * kCount ? moments_of<kCount, true>(values, i, columns)
                               : moments_of<kCount, false>(values, i, columns);
}

// Moments of parts of a row, put together: sums of the parts' distances from the first one's mean, which a large mean
// of all does not cancel. No step waits for a division.
struct JoinedMoments {
  float first = 0.f, sum = 0.f, squares = 0.f;

  // Of `size` values; a part of none changes nothing.
  __device__ __forceinline__ void add(float size, float2 part, bool is_first) {
    if (is_first) first = part.x;
    const float distance = part.x - first, weight = size * distance;
    sum += weight;
    squares += __fmaf_rn(weight, distance, size > 0.f ? part.y : 0.f);
  }
  // Of `size` values in all: their mean, and the sum of squared distances from it.
  __device__ __forceinline__ float2 of(float size) const {
    const float shift = __fdividef(sum, size);
    return make_float2(first + shift, fmaxf(__fmaf_rn(-sum, shift, squares), 0.f));
  }
};

__device__ __forceinline__ void store_moments(const GemmParams& p, int row, int column, float2 moments) {
  if (row >= p.rows || column >= p.columns) return;
  const int pieces = (p.columns + kMomentColumns - 1) / kMomentColumns;
  reinterpret_cast<float2*>(p.moments)[static_cast<long long>(row) * pieces + column / kMomentColumns] = moments;
}

}  // namespace stof::cuda
