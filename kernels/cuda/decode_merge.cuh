// SPDX-License-Identifier: Apache-2.0
// How partial results of rows become one: those of a CTA's warps through shared memory, those of several CTAs through
// global memory, by the last one to arrive or by a launch of its own. The order of a sum is the order of the keys.
#pragma once
#include "kernels/cuda/decode_tasks.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/output.cuh"

namespace stof::cuda {

// Of one row over some keys: its stats and four of its columns.
struct RowPart {
  float maximum, sum;
  float4 values;
};

__device__ __forceinline__ RowPart no_part() { return {kMinusInfinity, 0.f, make_float4(0.f, 0.f, 0.f, 0.f)}; }

// To a total whose maximum is that of all its parts.
__device__ __forceinline__ void add_share(RowPart& to, const RowPart& part, float share) {
  to.sum += part.sum * share;
  to.values.x += part.values.x * share, to.values.y += part.values.y * share;
  to.values.z += part.values.z * share, to.values.w += part.values.w * share;
}

__device__ __forceinline__ void add_part(RowPart& to, const RowPart& part, float scale_log2) {
  const float maximum = fmaxf(to.maximum, part.maximum), before = share_of(to.maximum, maximum, scale_log2);
  to.maximum = maximum, to.sum *= before;
  to.values.x *= before, to.values.y *= before, to.values.z *= before, to.values.w *= before;
  add_share(to, part, share_of(part.maximum, maximum, scale_log2));
}

// Of one CTA in global memory, each row's stats behind its columns.
template <int kRows, int kHeadDim>
struct CtaPart {
  static constexpr int kRowFloats = kHeadDim + 4, kFloats = kRows * kRowFloats;
  float* values;

  // The part of the first task that a CTA has, or of the last one.
  __device__ __forceinline__ static CtaPart of(const DecodeParams& p, int cta, bool first) {
    return {p.partials + (2ll * cta + (first ? 0 : 1)) * kFloats};
  }

  __device__ __forceinline__ float* row(int r) const { return values + r * kRowFloats; }
  __device__ __forceinline__ float* stats(int r) const { return row(r) + kHeadDim; }
  // Of the n-th four columns, row after row.
  __device__ __forceinline__ RowPart read(int n) const {
    constexpr int kFours = kHeadDim / 4;
    const float* const of_row = row(n / kFours);
    const float2 stats = __ldcg(reinterpret_cast<const float2*>(of_row + kHeadDim));
    return {stats.x, stats.y, __ldcg(reinterpret_cast<const float4*>(of_row + n % kFours * 4))};
  }
};

// The 16 rows of a warp in shared memory, in pieces of 8 columns that are swapped so that rows lie in different banks.
template <int kHeadDim>
struct WarpPart {
  static constexpr int kFloats = 16 * kHeadDim;
  float* values;
  float2* stats;

  __device__ __forceinline__ float* at(int r, int column) const {
    return values + r * kHeadDim + (column ^ (r & 3) << 3);
  }
};

// Adds up parts of a row that lie in global memory, kStride floats apart, in the order of the parts. Neighbouring lanes
// take neighbouring columns; those of a row find the shares of its parts together, a part a lane, and leave them in
// shared memory of the warp's own.
template <int kHeadDim, int kStride>
struct PartSum {
  static constexpr int kAtOnce = 64, kLanes = kHeadDim >= 128 ? 32 : kHeadDim / 4;  // of a row in a warp
  static constexpr int kStats = kAtOnce / kLanes;                                   // a lane
  static constexpr int kBatch = 8;                                                  // loads in flight, twice
  static constexpr int kWarpFloats = kAtOnce * (32 / kLanes);
  float* shares;  // of the row, in memory of the warp
  float scale_log2;
  RowPart total;

  __device__ __forceinline__ PartSum(float* memory, float scale)
      : shares(memory + threadIdx.x / 32 * kWarpFloats + threadIdx.x % 32 / kLanes * kAtOnce),
        scale_log2(scale),
        total(no_part()) {}

  // By whole warps: up to kAtOnce parts, of which the first lies `shift` floats on. With none the code runs as well.
  __device__ __forceinline__ void add(const float* values, const float* stats, int shift, int count) {
    float4 ready[kBatch], coming[kBatch];
    read(ready, values, shift, 0, count);
    read(coming, values, 0, kBatch, count);
    const float before = find_shares(stats, shift, count);
    float4& sum = total.values;
    sum.x *= before, sum.y *= before, sum.z *= before, sum.w *= before;
    int i = 0;
#pragma unroll 1
    do {
      add_batch(ready, i);
      read(ready, values, 0, i + 2 * kBatch, count);
      add_batch(coming, i + kBatch);
      read(coming, values, 0, i + 3 * kBatch, count);
    } while ((i += 2 * kBatch) < count);
    __syncwarp();  // the shares are free again
  }

 private:
  // Of parts past the last one zeros, which have a share of 0.
  __device__ __forceinline__ static void read(float4 (&to)[kBatch], const float* values, int shift, int first,
                                              int count) {
    const float* const from = values + first * kStride;
#pragma unroll
    for (int j = 0; j < kBatch; ++j)
      to[j] = first + j < count ? __ldcg(reinterpret_cast<const float4*>(from + j * kStride + (j == 0 ? shift : 0)))
                                : make_float4(0.f, 0.f, 0.f, 0.f);
  }

  __device__ __forceinline__ void add_batch(const float4 (&from)[kBatch], int first) {
    float4& sum = total.values;
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const float share = shares[(first + j) % kAtOnce];
      sum.x += from[j].x * share, sum.y += from[j].y * share, sum.z += from[j].z * share, sum.w += from[j].w * share;
    }
  }

  // By how much the total so far counts from now on.
  __device__ __forceinline__ float find_shares(const float* stats, int shift, int count) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    float2 of_lane[kStats];
    float highest = total.maximum, sum = 0.f;
#pragma unroll
    for (int i = 0; i < kStats; ++i) {
      const int part = i * kLanes + lane;
      of_lane[i] = part < count
                       ? __ldcg(reinterpret_cast<const float2*>(stats + part * kStride + (part == 0 ? shift : 0)))
                       : make_float2(kMinusInfinity, 0.f);
      highest = fmaxf(highest, of_lane[i].x);
    }
#pragma unroll
    for (int step = kLanes / 2; step; step /= 2) highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, step));
#pragma unroll
    for (int i = 0; i < kStats; ++i) {
      const float share = share_of(of_lane[i].x, highest, scale_log2);
      shares[i * kLanes + lane] = share;
      sum += of_lane[i].y * share;
    }
#pragma unroll
    for (int step = kLanes / 2; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    __syncwarp();
    const float before = share_of(total.maximum, highest, scale_log2);
    total.maximum = highest;
    total.sum = total.sum * before + sum;
    return before;
  }
};

// Four columns of row r over parts [begin, end) of a task, in as many turns as `most` parts take. By whole warps.
template <class Part, int kHeadDim>
__device__ __forceinline__ RowPart sum_of_parts(const DecodeParams& p, const DecodeCut& cut, float* memory, int r,
                                                int column, int begin, int end, int most) {
  using Sum = PartSum<kHeadDim, 2 * Part::kFloats>;
  Sum sum(memory, p.scale_log2);
  int at = 0;
#pragma unroll 1
  do {
    const Part next = Part::of(p, cut.first + begin + at, true);
    const int shift = begin + at == 0 && !cut.with_first ? Part::kFloats : 0;
    sum.add(next.row(r) + column, next.stats(r), shift, min(max(end - begin - at, 0), static_cast<int>(Sum::kAtOnce)));
  } while ((at += Sum::kAtOnce) < most);
  return sum.total;
}

// Where a row of the result lies, and its logarithm. What leads there is asked for before what is written is known.
struct ResultRow {
  unsigned short* out;
  float* lse;  // or null

  // item: the task's.
  __device__ __forceinline__ ResultRow(const DecodeParams& p, const DecodeTask& task, const RowItem& item, int r) {
    const DecodePlace place = task.place_of(r, item);
    out = static_cast<unsigned short*>(p.out) + item.out + place.head * p.out_stride.head +
          place.query * p.out_stride.row;
    lse = p.lse ? p.lse + item.lse + place.head * p.lse_stride.head + place.query * p.lse_stride.row : nullptr;
  }

  // Four columns, divided by the sum.
  template <class Element>
  __device__ __forceinline__ void write(int column, const float4& v) const {
    *reinterpret_cast<uint2*>(out + column) = make_uint2(Element::pack(v.x, v.y), Element::pack(v.z, v.w));
  }
  __device__ __forceinline__ void write_lse(float maximum, float sum, float scale_log2) const {
    constexpr float kLn2 = 0.6931471805599453f;
    const bool empty = maximum == kMinusInfinity && sum == 0.f;
    if (lse) *lse = empty ? kMinusInfinity : (maximum * scale_log2 + log2_approx(sum)) * kLn2;
  }
  // Four columns; the first ones bring the logarithm.
  template <class Element>
  __device__ __forceinline__ void write(int column, const RowPart& part, float scale_log2) const {
    const bool empty = part.maximum == kMinusInfinity && part.sum == 0.f;
    const float inverse = empty ? 0.f : reciprocal_approx(part.sum);
    const float4& v = part.values;
    write<Element>(column, make_float4(v.x * inverse, v.y * inverse, v.z * inverse, v.w * inverse));
    if (column == 0) write_lse(part.maximum, part.sum, scale_log2);
  }
};

}  // namespace stof::cuda
