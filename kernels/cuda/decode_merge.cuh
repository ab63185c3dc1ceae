// SPDX-License-Identifier: Apache-2.0
// How partial results of rows become one: those of a CTA's warps through shared memory, those of several CTAs through
// global memory, by whoever arrives last. The order of the sum is the order of the keys, whoever computes it.
#pragma once
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/output.cuh"
#include "kernels/shared/decode_layout.h"

namespace stof::cuda {

// Of one row over some keys: its stats and four of its columns.
struct RowPart {
  float maximum, sum;
  float4 values;
};

__device__ __forceinline__ RowPart no_part() { return {kMinusInfinity, 0.f, make_float4(0.f, 0.f, 0.f, 0.f)}; }

__device__ __forceinline__ void add_part(RowPart& to, const RowPart& part, float scale_log2) {
  const float highest = fmaxf(to.maximum, part.maximum);
  const float mine = share_of(to.maximum, highest, scale_log2), its = share_of(part.maximum, highest, scale_log2);
  to.maximum = highest;
  to.sum = to.sum * mine + part.sum * its;
  to.values.x = to.values.x * mine + part.values.x * its;
  to.values.y = to.values.y * mine + part.values.y * its;
  to.values.z = to.values.z * mine + part.values.z * its;
  to.values.w = to.values.w * mine + part.values.w * its;
}

// Parts of kRows rows by kHeadDim columns, each row's stats behind its columns. kPadding, at least 4, keeps rows of
// shared memory in different banks.
template <int kRows, int kHeadDim, int kPadding>
struct PartMemory {
  static constexpr int kRowFloats = kHeadDim + kPadding, kFloats = kRows * kRowFloats;
  float* values;

  __device__ __forceinline__ float* row(int r) const { return values + r * kRowFloats; }
  __device__ __forceinline__ float* stats(int r) const { return row(r) + kHeadDim; }
};

__device__ __forceinline__ RowPart part_in(const float* values, const float* stats) {
  return {stats[0], stats[1], *reinterpret_cast<const float4*>(values)};
}

// Adds up parts of a row that lie in global memory, in the order of the parts. Neighbouring lanes take neighbouring
// columns; those of a row share its stats, a part a lane. Values come through shared memory of the thread's own, so
// that all of them are on their way at the same time.
template <int kHeadDim, int kThreads>
struct PartSum {
  static constexpr int kAtOnce = 48, kLanes = kHeadDim >= 128 ? 32 : kHeadDim / 4;  // of a row in a warp
  static constexpr int kStats = (kAtOnce + kLanes - 1) / kLanes;                    // a lane
  static constexpr int kBytes = kAtOnce * kThreads * 16;
  float4* memory;  // of the CTA
  float scale_log2;
  RowPart total;

  // count, at most kAtOnce, parts that are `stride` floats apart; the first of them `shift` floats on. By whole warps.
  __device__ __forceinline__ void add(const float* values, const float* stats, int stride, int shift, int count) {
    const int thread = static_cast<int>(threadIdx.x), lane = thread % kLanes;
    float4* const mine = memory + thread;
#pragma unroll 8
    for (int i = 0; i < count; ++i)
      copy_piece(shared_address(mine + i * kThreads), values + i * stride + (i == 0 ? shift : 0), true);
    float2 of_lane[kStats];
    float highest = total.maximum;
#pragma unroll
    for (int i = 0; i < kStats; ++i) {
      const int part = i * kLanes + lane;
      of_lane[i] = part < count
                       ? __ldcg(reinterpret_cast<const float2*>(stats + part * stride + (part == 0 ? shift : 0)))
                       : make_float2(kMinusInfinity, 0.f);
      highest = fmaxf(highest, of_lane[i].x);
    }
#pragma unroll
    for (int step = kLanes / 2; step; step /= 2) highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, step));
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < kStats; ++i) {
      of_lane[i].x = share_of(of_lane[i].x, highest, scale_log2);
      sum += of_lane[i].y * of_lane[i].x;
    }
#pragma unroll
    for (int step = kLanes / 2; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    const float before = share_of(total.maximum, highest, scale_log2);
    total.maximum = highest;
    total.sum = total.sum * before + sum;
    float4 add = total.values;
    add.x *= before, add.y *= before, add.z *= before, add.w *= before;
    wait_for_copies();
#pragma unroll
    for (int i = 0; i < kStats; ++i)
#pragma unroll 4
      for (int j = 0; j < min(kLanes, count - i * kLanes); ++j) {
        const float share = __shfl_sync(~0u, of_lane[i].x, j, kLanes);
        const float4 v = mine[(i * kLanes + j) * kThreads];
        add.x += v.x * share, add.y += v.y * share, add.z += v.z * share, add.w += v.w * share;
      }
    total.values = add;
  }
};

// Four columns of an output row, and its logarithm where they are the first.
template <class Element>
__device__ __forceinline__ void write_columns(unsigned short* row, float* lse, int column, const RowPart& part,
                                              float scale_log2) {
  constexpr float kLn2 = 0.6931471805599453f;
  const bool empty = part.maximum == kMinusInfinity && part.sum == 0.f;
  const float inverse = empty ? 0.f : 1.f / part.sum;
  *reinterpret_cast<uint2*>(row + column) = make_uint2(Element::pack(part.values.x * inverse, part.values.y * inverse),
                                                       Element::pack(part.values.z * inverse, part.values.w * inverse));
  if (lse && column == 0) *lse = empty ? kMinusInfinity : (part.maximum * scale_log2 + log2_approx(part.sum)) * kLn2;
}

}  // namespace stof::cuda
