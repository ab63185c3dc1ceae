// SPDX-License-Identifier: Apache-2.0
// What a warp does with its 16 finished rows: partial results of split rows, the rows themselves, their LSE.
#pragma once
#include "kernels/cuda/row_block.cuh"
#include "kernels/cuda/softmax.cuh"

namespace stof::cuda {

// What a result so far counts for when the reference maximum is `highest`.
__device__ __forceinline__ float share_of(float maximum, float highest, float scale_log2) {
  return maximum == kMinusInfinity ? 0.f : exp2_approx((maximum - highest) * scale_log2);
}

// A thread's share of a partial result in shared memory, with full sums; its values as vectors 128 threads apart.
template <int kCount>
__device__ __forceinline__ void leave_partial(float4* stats, float4* values, const float (&out)[kCount],
                                              const RowStats& rows) {
  *stats = make_float4(rows.maximum[0], rows.maximum[1], rows.sum[0], rows.sum[1]);
#pragma unroll
  for (int i = 0; i < kCount; i += 4) values[i / 4 * 128] = make_float4(out[i], out[i + 1], out[i + 2], out[i + 3]);
}
template <int kCount>
__device__ __forceinline__ void add_partial(const float4& stats, const float4* values, float (&out)[kCount],
                                            RowStats& rows, float scale_log2) {
  const float maxima[2] = {stats.x, stats.y}, sums[2] = {stats.z, stats.w};
  float mine[2], its[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float highest = fmaxf(rows.maximum[i], maxima[i]);
    mine[i] = share_of(rows.maximum[i], highest, scale_log2);
    its[i] = share_of(maxima[i], highest, scale_log2);
    rows.maximum[i] = highest;
    rows.sum[i] = rows.sum[i] * mine[i] + sums[i] * its[i];
  }
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    const float4 v = values[i / 4 * 128];
    out[i] = out[i] * mine[0] + v.x * its[0], out[i + 1] = out[i + 1] * mine[0] + v.y * its[0];
    out[i + 2] = out[i + 2] * mine[1] + v.z * its[1], out[i + 3] = out[i + 3] * mine[1] + v.w * its[1];
  }
}

struct SplitMemory {
  float* partials;
  int* arrivals;
  int slots;  // of a slice
};

// Where split rows meet: every part leaves its sums, the last to arrive adds them up. Vectors of 4 floats lie 128
// threads side by side.
template <int kHeadDim>
struct SplitRows {
  static constexpr int kVectors = kHeadDim / 8 + 1;
  float4* base;
  int* arrivals;
  int index, count;

  __device__ __forceinline__ SplitRows(const SplitMemory& memory, const RowBlock& block, int part, int parts) {
    const int first = block.split & 0xffff;
    index = block.split >> 16 & 0xff;
    count = block.split >> 24 & 0xff;
    const long long slot = (static_cast<long long>(block.slice) * memory.slots + first) * parts + part * count;
    base = reinterpret_cast<float4*>(memory.partials) + slot * kVectors * 128;
    arrivals = memory.arrivals + slot;
  }

  __device__ __forceinline__ void publish(const float (&out)[kHeadDim / 2], const RowStats& rows, int thread) const {
    float4* mine = base + index * kVectors * 128 + thread;
    __stcg(mine, make_float4(rows.maximum[0], rows.maximum[1], rows.sum[0], rows.sum[1]));
#pragma unroll
    for (int i = 0; i < kHeadDim / 8; ++i)
      __stcg(mine + (i + 1) * 128, make_float4(out[4 * i], out[4 * i + 1], out[4 * i + 2], out[4 * i + 3]));
  }

  // By one thread, between barriers: after every thread of the warpgroup has published, and before one merges.
  __device__ __forceinline__ bool arrive_last() const {
    const bool last = add_and_order(arrivals, 1) == count - 1;
    if (last) *arrivals = 0;
    return last;
  }

  __device__ __forceinline__ void merge(float (&out)[kHeadDim / 2], RowStats& rows, int thread,
                                        float scale_log2) const {
    rows.reset();
    for (int i = 0; i < count; ++i) {
      const float4 part = __ldcg(base + i * kVectors * 128 + thread);
      rows.maximum[0] = fmaxf(rows.maximum[0], part.x);
      rows.maximum[1] = fmaxf(rows.maximum[1], part.y);
    }
#pragma unroll
    for (int i = 0; i < kHeadDim / 2; ++i) out[i] = 0.f;
    for (int i = 0; i < count; ++i) {
      const float4* part = base + i * kVectors * 128 + thread;
      const float4 stats = __ldcg(part);
      const float factor[2] = {share_of(stats.x, rows.maximum[0], scale_log2),
                               share_of(stats.y, rows.maximum[1], scale_log2)};
      rows.sum[0] += stats.z * factor[0];
      rows.sum[1] += stats.w * factor[1];
#pragma unroll
      for (int j = 0; j < kHeadDim / 8; ++j) {
        const float4 v = __ldcg(part + (j + 1) * 128);
        out[4 * j] += v.x * factor[0], out[4 * j + 1] += v.y * factor[0];
        out[4 * j + 2] += v.z * factor[1], out[4 * j + 3] += v.w * factor[1];
      }
    }
  }
};

// Where a row's values go, and its logarithm.
__device__ __forceinline__ unsigned short* values_of(const AttentionOutput& to, const RowBlock& block, int head,
                                                     int row) {
  return static_cast<unsigned short*>(to.values) + block.place.item * to.item_stride + head * to.head_stride +
         block.residue * to.residue_stride + (block.place.query_start + row) * to.row_stride;
}
__device__ __forceinline__ float* lse_of(const AttentionOutput& to, const RowBlock& block, int head, int row) {
  return to.lse + block.place.item * to.lse_item_stride + head * to.lse_head_stride +
         block.residue * to.lse_residue_stride + (block.place.query_start + row) * to.lse_row_stride;
}

// After the rows: the fence in front of their bulk store would wait for these stores as well. Of the warp's 16 rows,
// which begin at `row`.
__device__ __forceinline__ void write_lse(const AttentionCall& call, const RowBlock& block, const RowStats& rows,
                                          int row) {
  if (!call.out.lse || threadIdx.x % 4) return;
  float* lse = lse_of(call.out, block, block.head, 0);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int at = row + static_cast<int>(threadIdx.x % 32 / 4) + 8 * i;
    if (at >= 0 && at < block.rows) lse[at * call.out.lse_row_stride] = log_sum_exp(rows, i, call.scale_log2);
  }
}

// Element by element: for rows of which some lie past the slice's end.
template <class Element, int kHeadDim>
__device__ __forceinline__ void write_some_rows(const AttentionCall& call, const RowBlock& block,
                                                const float (&out)[kHeadDim / 2], const float (&inverse)[2], int row) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int at = row + lane / 4 + 8 * i;
    if (at < 0 || at >= block.rows) continue;
    unsigned short* const values = values_of(call.out, block, block.head, at);
#pragma unroll
    for (int j = 0; j < kHeadDim / 8; ++j) {
      const int column = 8 * j + lane % 4 * 2;
      const u32 pair = Element::pack(out[4 * j + 2 * i] * inverse[i], out[4 * j + 2 * i + 1] * inverse[i]);
      if (column < call.out.head_dim) *reinterpret_cast<u32*>(values + column) = pair;
    }
  }
}

// What the warp's last bulk stores read may be overwritten.
__device__ __forceinline__ void wait_for_way_out() {
  if (elected()) wait_stores_read();
  __syncwarp();
}

// The warp's 16 rows as elements in shared memory, as many boxes of columns at a time as it has room for, each in the
// places that the copy engine reads; then leave(the first of them, how many). staging: the 16 rows of the first box.
template <class Element, int kHeadDim, int kBoxesAtOnce, class Leave>
__device__ __forceinline__ void through_shared_memory(const float (&out)[kHeadDim / 2], const float (&inverse)[2],
                                                      u32 staging, const Leave& leave) {
  constexpr int kPieces = kBoxColumns / 8 * kBoxesAtOnce;
  const int lane = static_cast<int>(threadIdx.x) % 32, r = lane % 16;
#pragma unroll
  for (int first = 0; first < kHeadDim / 8; first += kPieces) {
    const int end = min(first + kPieces, kHeadDim / 8);
    if (first > 0) wait_for_way_out();
#pragma unroll
    for (int j = first; j < end; j += 2) {
      const u32 piece = static_cast<u32>((j % 8 + (lane >> 4)) ^ (r & 7)) << 4;
      const u32 target = staging + (j - first) / 8 * (64 * kRowBytes) + static_cast<u32>(r) * kRowBytes + piece;
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(target),
                   "r"(Element::pack(out[4 * j] * inverse[0], out[4 * j + 1] * inverse[0])),
                   "r"(Element::pack(out[4 * j + 2] * inverse[1], out[4 * j + 3] * inverse[1])),
                   "r"(Element::pack(out[4 * j + 4] * inverse[0], out[4 * j + 5] * inverse[0])),
                   "r"(Element::pack(out[4 * j + 6] * inverse[1], out[4 * j + 7] * inverse[1]))
                   : "memory");
    }
    leave(first, end - first);
  }
}

template <int kHeadDim>
constexpr int kAllBoxes = (kHeadDim + kBoxColumns - 1) / kBoxColumns;

// 16 whole rows, one bulk store a box.
template <class Element, int kHeadDim, int kBoxesAtOnce = kAllBoxes<kHeadDim>>
__device__ __forceinline__ void write_rows(int read_next, const TensorMap& map, const RowBlock& block,
                                           const float (&out)[kHeadDim / 2], const float (&inverse)[2], int row,
                                           u32 staging) {
  through_shared_memory<Element, kHeadDim, kBoxesAtOnce>(out, inverse, staging, [&](int first, int count) {
    fence_async_proxy();
    __syncwarp();
    if (!elected()) return;
#pragma unroll
    for (int j = 0; j < count; j += 8) {
      const Place at{(first + j) * 8, block.place.query_start + row, block.residue, block.head, block.place.item};
      const u32 source = staging + static_cast<u32>(j) / 8 * (64 * kRowBytes);
      if (read_next) store_box(map, at, source, cache_policy(kReadAgain));
      else store_box(map, at, source);
    }
    commit_stores();
  });
}

// Rows that no box has, 16 bytes a lane. values_at(one of the 16): where it goes, or null. For whole launches of such
// rows: where only the last ones of an item are, bands took longer by it than by write_some_rows.
template <class Element, int kHeadDim, int kBoxesAtOnce, class ValuesAt>
__device__ __forceinline__ void write_rows_apart(int head_dim, const float (&out)[kHeadDim / 2],
                                                 const float (&inverse)[2], u32 staging, const ValuesAt& values_at) {
  through_shared_memory<Element, kHeadDim, kBoxesAtOnce>(out, inverse, staging, [&](int first, int count) {
    __syncwarp();
#pragma unroll 2
    for (int i = static_cast<int>(threadIdx.x) % 32; i < 16 * count; i += 32) {
      const int row = i / count, piece = i - row * count, column = 8 * (first + piece);
      unsigned short* const values = values_at(row);
      if (values == nullptr || column >= head_dim) continue;
      const u32 source =
          staging + static_cast<u32>(piece / 8 * (64 * kRowBytes) + row * kRowBytes + ((piece % 8 ^ (row & 7)) << 4));
      uint4 vector;
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(vector.x), "=r"(vector.y), "=r"(vector.z), "=r"(vector.w)
                   : "r"(source)
                   : "memory");
      *reinterpret_cast<uint4*>(values + column) = vector;
    }
    fence_async_proxy();  // the copy engine brings q there next, or a whole row block's rows leave from there
  });
}

}  // namespace stof::cuda
