// SPDX-License-Identifier: Apache-2.0
// Behind a stream_attention_kernel that left the parts of its row blocks: adds them up, on all multiprocessors.
#pragma once
#include "kernels/cuda/output.cuh"
#include "kernels/cuda/stream_steps.cuh"

namespace stof::cuda {

template <class Traits>
struct StreamSum {
  using Element = typename Traits::Element;
  static constexpr int kVectors = SpanSumGrid::kVectors, kBatch = 8;  // parts that a thread has on their way
  static_assert(Traits::kHeadDim % (8 * kVectors) == 0);
  const typename Traits::Params& p;
  const RowBlock& block;
  int part;
  float out[4 * kVectors];
  RowStats rows;

  // As SplitRows::merge, but of some columns, and with a reference maximum that rises with each batch.
  __device__ __forceinline__ void add_parts() {
    const SplitRows<Traits::kHeadDim> split({p.partials, p.arrivals, p.layout.slots}, block, part, Traits::kParts);
    rows.reset();
#pragma unroll
    for (float& value : out) value = 0.f;
    for (int first = 0; first < split.count; first += kBatch) add_batch(split, first);
  }

  __device__ __forceinline__ void write() const {
    float inverse[2];
    rows.invert(inverse);
#pragma unroll
    for (int i = 0; i < 2; ++i) write_row(i, inverse[i]);
  }

 private:
  __device__ __forceinline__ void add_batch(const SplitRows<Traits::kHeadDim>& split, int first) {
    const float4* from = split.base + first * SplitRows<Traits::kHeadDim>::kVectors * 128 + threadIdx.x;
    const float4* columns = from + (1 + static_cast<int>(blockIdx.y) * kVectors) * 128;
    float4 stats[kBatch], values[kBatch][kVectors];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int at = i * SplitRows<Traits::kHeadDim>::kVectors * 128;
      const bool there = first + i < split.count;
      stats[i] = there ? __ldcg(from + at) : make_float4(kMinusInfinity, kMinusInfinity, 0.f, 0.f);
#pragma unroll
      for (int j = 0; j < kVectors; ++j)
        values[i][j] = there ? __ldcg(columns + at + j * 128) : make_float4(0.f, 0.f, 0.f, 0.f);
    }
    float highest[2] = {rows.maximum[0], rows.maximum[1]};
#pragma unroll
    for (int i = 0; i < kBatch; ++i)
      highest[0] = fmaxf(highest[0], stats[i].x), highest[1] = fmaxf(highest[1], stats[i].y);
    const float scale_log2 = p.call.scale_log2;
    float mine[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      mine[i] = share_of(rows.maximum[i], highest[i], scale_log2);
      rows.maximum[i] = highest[i], rows.sum[i] *= mine[i];
    }
#pragma unroll
    for (int i = 0; i < 4 * kVectors; ++i) out[i] *= mine[i / 2 % 2];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const float a = share_of(stats[i].x, highest[0], scale_log2), b = share_of(stats[i].y, highest[1], scale_log2);
      rows.sum[0] += stats[i].z * a, rows.sum[1] += stats[i].w * b;
#pragma unroll
      for (int j = 0; j < kVectors; ++j) {
        const float4 v = values[i][j];
        out[4 * j] += v.x * a, out[4 * j + 1] += v.y * a, out[4 * j + 2] += v.z * b, out[4 * j + 3] += v.w * b;
      }
    }
  }

  // The thread's row of the half.
  __device__ __forceinline__ void write_row(int half, float inverse) const {
    const int lane = static_cast<int>(threadIdx.x) % 32,
              at = static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4 + 8 * half;
    const RowOfPart of = row_of_part<Traits>(p, block, part, at);
    if (!is_written<Traits>(p, block, of)) return;
    const auto [head, row] = of;
    const AttentionOutput& to = p.call.out;
    unsigned short* values = static_cast<unsigned short*>(to.values) + block.place.item * to.item_stride +
                             head * to.head_stride + block.residue * to.residue_stride +
                             (block.place.query_start + row) * to.row_stride;
#pragma unroll
    for (int j = 0; j < kVectors; ++j) {
      const int column = 8 * (static_cast<int>(blockIdx.y) * kVectors + j) + lane % 4 * 2;
      if (column < to.head_dim)
        *reinterpret_cast<u32*>(values + column) =
            Element::pack(out[4 * j + 2 * half] * inverse, out[4 * j + 2 * half + 1] * inverse);
    }
    if (to.lse != nullptr && blockIdx.y == 0 && lane % 4 == 0)
      to.lse[block.place.item * to.lse_item_stride + head * to.lse_head_stride + block.residue * to.lse_residue_stride +
             (block.place.query_start + row) * to.lse_row_stride] = log_sum_exp(rows, half, p.call.scale_log2);
  }
};

// Rows whose row blocks were cut, by RowSpans::summed. Grid: {parts of 64 rows of all slices' row blocks that may be,
// SpanSumGrid::kColumns of kHeadDim each}.
template <class Traits>
__global__ void __launch_bounds__(SpanSumGrid::kThreads, 4)
    stream_sum_kernel(const __grid_constant__ typename Traits::Params p) {
  const StreamSteps<Traits> steps{p};
  if (p.call.shape.numbers_made) wait_for_previous_grid();
  const int at = static_cast<int>(blockIdx.x) / Traits::kParts, part = static_cast<int>(blockIdx.x) % Traits::kParts;
  const int place = at / p.spans.split_blocks, nth = at - place * p.spans.split_blocks;
  const RowBlock block = steps.look_by_spans(slice_of(p.call.shape, place), p.spans.more_parts + nth).block;
  wait_for_previous_grid();  // also where nothing is to do: who waits for this grid waits for that one
  allow_next_grid();
  if (block.split == 0 || !steps.has_rows(block)) return;
  StreamSum<Traits> sum{p, block, part, {}, {}};
  sum.add_parts();
  sum.write();
}

}  // namespace stof::cuda
