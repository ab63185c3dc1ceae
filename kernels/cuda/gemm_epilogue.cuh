// SPDX-License-Identifier: Apache-2.0
// What happens to a sum before it is stored: norm of x, bias, activation, residual, or heads turned by the row's
// position; and the moments of what is stored.
// A thread holds two rows, 8 apart, of each column block of 8: elements {0, 1} of the first, {2, 3} of the second.
#pragma once
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/gemm_traits.cuh"

namespace stof::cuda {

// What makes a thread's two rows of x have mean 0 and deviation 1: value * y + x; half of it where that is handed over.
struct RowNorms {
  float2 of[2];
};

// Of a thread's two rows: what normalises those of the residual, and what turns them, from the column `first` of the
// tile on.
struct RowPair {
  float2 residual[2];
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

// Facts of the rows `row` and `row` + 8, of those that this CTA writes,
template <class Traits>
__device__ __forceinline__ RowNorms norms_of(const typename Traits::Facts& facts, int row) {
  RowNorms norms = {};
  if constexpr (Traits::kEpilogue.x_norm) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      norms.of[i] = facts.x_rows[row + 8 * i];
      if constexpr (kHalved<Traits::kEpilogue>) norms.of[i].x *= 0.5f, norms.of[i].y *= 0.5f;
    }
  }
  return norms;
}
// and for columns from `first` on.
template <class Traits>
__device__ __forceinline__ RowPair rows_of(const GemmParams& p, const GemmTile& tile,
                                           const typename Traits::Facts& facts, int row, int first) {
  RowPair rows = {};
  rows.first = first, rows.of_tile = tile.column, rows.turned = p.turned, rows.head_mask = p.head_mask;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if constexpr (Traits::kEpilogue.residual_norm) rows.residual[i] = facts.residual_rows[row + 8 * i];
    if constexpr (Traits::kEpilogue.turned)
      rows.angles[i] =
          p.angles + static_cast<long long>(facts.positions[row + 8 * i]) * (p.head_mask + 1) + rows.place(first);
  }
  return rows;
}

// Nothing stands between the bias and the shift of the residual's norm: one addition for both.
template <class Traits>
__device__ constexpr bool shifts_with_bias() {
  return Traits::kHasBias && Traits::kEpilogue.residual_norm && Traits::kEpilogue.activation == kNoActivation;
}

// Of a thread's two columns of a block: what is added to them, and the sums of the weight's rows.
struct ColumnPair {
  float2 bias, sum;
};
template <class Traits>
__device__ __forceinline__ float2 pair_of(const typename Traits::Facts& facts, int which, int column) {
  return *reinterpret_cast<const float2*>(&facts.columns[which][column]);
}
template <class Traits>
__device__ __forceinline__ ColumnPair columns_of(const typename Traits::Facts& facts, int column) {
  ColumnPair columns = {};
  if constexpr (Traits::kHasBias) columns.bias = pair_of<Traits>(facts, Traits::kBias, column);
  if constexpr (kHalved<Traits::kEpilogue>) columns.bias.x *= 0.5f, columns.bias.y *= 0.5f;
  if constexpr (Traits::kEpilogue.x_norm) columns.sum = pair_of<Traits>(facts, Traits::kColumnSum, column);
  if constexpr (shifts_with_bias<Traits>()) {
    const float2 shift = pair_of<Traits>(facts, Traits::kShift, column);
    columns.bias.x += shift.x, columns.bias.y += shift.y;
  }
  return columns;
}

// Norm of x and bias of one column block of one thread, in place; half of that where the activation takes it.
template <class Traits>
__device__ __forceinline__ void add_columns(float* sums, const ColumnPair& columns, const RowNorms& norms) {
  const float2 bias = columns.bias;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float &first = sums[2 * i], &second = sums[2 * i + 1];
    if constexpr (Traits::kEpilogue.x_norm) {
      const float2 row = norms.of[i];
      first = __fmaf_rn(row.y, first, __fmaf_rn(row.x, columns.sum.x, bias.x));
      second = __fmaf_rn(row.y, second, __fmaf_rn(row.x, columns.sum.y, bias.y));
    } else if constexpr (kHalved<Traits::kEpilogue>) {
      first = __fmaf_rn(first, 0.5f, bias.x), second = __fmaf_rn(second, 0.5f, bias.y);
    } else if constexpr (Traits::kHasBias) {
      first += bias.x, second += bias.y;
    }
  }
}

// Over the four threads that share a row, the same in each.
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

// Mean of values, and the sum of their squared distances from it, of one row in one thread: by distances from the first
// of them, which is at most sqrt(n) deviations away from their mean, so that n values lose no more than a factor of n.
struct RowMoments {
  float first = 0.f, sum = 0.f, squares = 0.f;

  __device__ __forceinline__ void add(float one, float other, bool is_first) {
    if (is_first) first = one;
    const float distance = one - first, further = other - first;
    sum += distance + further;
    squares = __fmaf_rn(distance, distance, __fmaf_rn(further, further, squares));
  }
  // With those of the other three threads that share the row, `count` values in each.
  __device__ __forceinline__ float2 of_quad(float count) const {
    const float share = __fdividef(1.f, count), shift = sum * share, own = first + shift;
    const float mean = quad_sum(own) * 0.25f, distance = own - mean;
    return make_float2(mean, quad_sum(fmaxf(__fmaf_rn(-sum, shift, squares), 0.f) + count * distance * distance));
  }
};

// Activation and residual of one column block of one thread, `column` of the tile being its first: products to values
// as they are stored, packed by row.
template <class Traits>
__device__ __forceinline__ void finish_added(const float* sums, const typename Traits::Facts& facts, int column,
                                             const RowPair& rows, const u32 (&residual)[2], u32 (&stored)[2]) {
  constexpr GemmEpilogue kEpilogue = Traits::kEpilogue;
  using Storage = typename Traits::Storage;
  float2 scale = {}, shift = {};
  if constexpr (kEpilogue.residual_norm) {
    scale = pair_of<Traits>(facts, Traits::kScale, column);
    if constexpr (!shifts_with_bias<Traits>()) shift = pair_of<Traits>(facts, Traits::kShift, column);
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float first = activated<kEpilogue, Storage>(sums[2 * i]), second = activated<kEpilogue, Storage>(sums[2 * i + 1]);
    if constexpr (kEpilogue.residual) {
      float one, other;
      Storage::load_pair(residual[i], one, other);
      if constexpr (kEpilogue.residual_norm) {
        const float2 row = rows.residual[i];
        one = __fmaf_rn(one, row.y, row.x) * scale.x, other = __fmaf_rn(other, row.y, row.x) * scale.y;
        if constexpr (!shifts_with_bias<Traits>()) one += shift.x, other += shift.y;
      }
      first += one, second += other;
    }
    stored[i] = Storage::store_pair(first, second);
  }
}

// Two column blocks, a gate and what it lets through, to one: activation(first) * second.
template <class Traits>
__device__ __forceinline__ void finish_pair(const float* sums, u32 (&stored)[2]) {
  using Storage = typename Traits::Storage;
#pragma unroll
  for (int i = 0; i < 2; ++i)
    stored[i] = Storage::store_pair(activated<Traits::kEpilogue, Storage>(sums[2 * i]) * sums[4 + 2 * i],
                                    activated<Traits::kEpilogue, Storage>(sums[2 * i + 1]) * sums[5 + 2 * i]);
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
__device__ __forceinline__ void finish_turned(const float* sums, int column, const RowPair& rows, u32 (&stored)[2]) {
  const bool turns = rows.turns(column);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float2 angle = angle_of<Traits>(rows, i, column);
    const float2 pair = make_float2(sums[2 * i], sums[2 * i + 1]);
    const float first = __fmaf_rn(-pair.y, angle.y, pair.x * angle.x);
    const float second = __fmaf_rn(pair.x, angle.y, pair.y * angle.x);
    stored[i] = Traits::Storage::store_pair(turns ? first : pair.x, turns ? second : pair.y);
  }
}

// What follows norm of x and bias in one column block, of any epilogue but a gate's.
template <class Traits>
__device__ __forceinline__ void finish_block(const float* sums, const typename Traits::Facts& facts, int column,
                                             const RowPair& rows, const u32 (&residual)[2], u32 (&stored)[2]) {
  if constexpr (Traits::kEpilogue.turned) finish_turned<Traits>(sums, column, rows, stored);
  else finish_added<Traits>(sums, facts, column, rows, residual, stored);
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

// Of the values of a row's piece of `columns`, of which `exist` are there: how many each of four threads has.
__device__ __forceinline__ float quarter_of(int columns, int exist) {
  return 0.25f * static_cast<float>(max(8, min(columns, exist)));
}

// What is stored of column block j of a piece of which `columns` exist.
template <class Storage>
__device__ __forceinline__ void add_moments(RowMoments (&rows)[2], const u32 (&stored)[2], int j, int columns) {
  if (8 * j >= columns) return;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float one, other;
    Storage::load_pair(stored[i], one, other);
    rows[i].add(one, other, j == 0);
  }
}

__device__ __forceinline__ void store_moments(const GemmParams& p, int row, int column, float2 moments) {
  if (row >= p.rows || column >= p.columns) return;
  const int pieces = (p.columns + kMomentColumns - 1) / kMomentColumns;
  reinterpret_cast<float2*>(p.moments)[static_cast<long long>(row) * pieces + column / kMomentColumns] = moments;
}

}  // namespace stof::cuda
