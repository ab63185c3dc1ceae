// SPDX-License-Identifier: Apache-2.0
// What the warps of a decode CTA have of a task's rows becomes one result: rows that are written, or the CTA's part.
#pragma once
#include "kernels/cuda/decode_block.cuh"

namespace stof::cuda {

template <class Traits>
struct DecodeResults : DecodeBlock<Traits> {
  using Block = DecodeBlock<Traits>;
  using Block::first_column, Block::group, Block::groups, Block::key_warp, Block::lane, Block::meet_readers, Block::out,
      Block::p, Block::part_memory, Block::row_of, Block::row_warp, Block::rows, Block::shared, Block::thread;
  using Element = typename Traits::Element;
  using Part = CtaPart<Traits::kRows, Traits::kHeadDim>;
  using Share = WarpPart<Traits::kHeadDim>;
  static constexpr int kHeadDim = Traits::kHeadDim, kColumns = Traits::kColumns, kFours = kHeadDim / 4;

  __device__ __forceinline__ ResultRow result_row(const DecodeTask& task, int r) const {
    return {p, task, item_of<Traits::kConstantItems>(p, task), r};
  }

  // By all readers, once their tiles are added. Of a whole task the rows are written, else this CTA leaves its part.
  __device__ __forceinline__ void finish(const DecodeTask& task, const Part& part, bool whole) {
    rows.sum_over_columns();
    if constexpr (Traits::kOwnRows) {
      meet_readers();  // the last tiles are read
      if constexpr (Traits::kGroups > 1) add_groups();
      if (group > 0 || 16 * row_warp >= task.rows) return;
      if (whole) write_own(task);
      else leave_own(task, part);
    } else {
      meet_readers();
      leave_share(task);
      meet_readers();
      add_shares(task, part, whole);
    }
  }

  // Of a task without keys.
  __device__ __forceinline__ void write_nothing(const DecodeTask& task) const {
    for_columns(
        task, [&](int r, int column) { result_row(task, r).template write<Element>(column, no_part(), p.scale_log2); });
  }

 private:
  // Calls each(row, column) for four columns at a time.
  template <class Each>
  __device__ __forceinline__ void for_columns(const DecodeTask& task, const Each& each) const {
#pragma unroll 2
    for (int i = thread; i < task.rows * kFours; i += Traits::kReaderThreads)
      if (i % kFours * 4 < p.head_dim) each(i / kFours, i % kFours * 4);
  }

  // The results of both groups become the first one's.
  __device__ __forceinline__ void add_groups() {
    if (groups < 2) return;
    const int of_group = thread % 128;
    float4* const values = reinterpret_cast<float4*>(part_memory(1)) + of_group;
    if (group == 1) leave_partial(&shared.group_stats[of_group], values, out, rows);
    meet_readers();
    if (group == 0) add_partial(shared.group_stats[of_group], values, out, rows, p.scale_log2);
  }

  // Straight from registers: what goes through shared memory first takes registers that the loop over tiles needs.
  __device__ __forceinline__ void write_own(const DecodeTask& task) const {
    float inverse[2];
    rows.invert(inverse);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = row_of(i);
      if (r >= task.rows) break;
      const ResultRow row = result_row(task, r);
#pragma unroll
      for (int j = 0; j < kColumns / 8; ++j)
        if (first_column + 8 * j < p.head_dim)
          *reinterpret_cast<u32*>(row.out + first_column + 8 * j + lane % 4 * 2) =
              Element::pack(out[4 * j + 2 * i] * inverse[i], out[4 * j + 2 * i + 1] * inverse[i]);
      if (row.lse && first_column == 0 && lane % 4 == 0) *row.lse = log_sum_exp(rows, i, p.scale_log2);
    }
  }

  __device__ __forceinline__ void leave_own(const DecodeTask& task, const Part& part) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = row_of(i);
      if (r >= task.rows) break;
#pragma unroll
      for (int j = 0; j < kColumns / 8; ++j)
        __stcg(reinterpret_cast<float2*>(part.row(r) + first_column + 8 * j + lane % 4 * 2),
               make_float2(out[4 * j + 2 * i], out[4 * j + 2 * i + 1]));
      if (first_column == 0 && lane % 4 == 0)
        __stcg(reinterpret_cast<float2*>(part.stats(r)), make_float2(rows.maximum[i], rows.sum[i]));
    }
  }

  // Of these rows and the keys of one of their warps.
  __device__ __forceinline__ Share share_of_keys(int of_rows, int of_keys) const {
    const int warp = of_rows * Traits::kKeyWarps + of_keys;
    return {part_memory(0) + warp * Share::kFloats, shared.stats[warp]};
  }
  __device__ __forceinline__ void leave_share(const DecodeTask& task) const {
    const Share mine = share_of_keys(row_warp, key_warp);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = lane / 4 + 8 * i;
      if (16 * row_warp + r >= task.rows) break;
#pragma unroll
      for (int j = 0; j < kColumns / 8; ++j)
        *reinterpret_cast<float2*>(mine.at(r, first_column + 8 * j) + lane % 4 * 2) =
            make_float2(out[4 * j + 2 * i], out[4 * j + 2 * i + 1]);
      if (first_column == 0 && lane % 4 == 0) mine.stats[r] = make_float2(rows.maximum[i], rows.sum[i]);
    }
  }
  // By how much the keys of each warp count in a row, and what the row has over all of them.
  struct RowShares {
    float shares[Traits::kKeyWarps], maximum = kMinusInfinity, sum = 0.f;
  };
  __device__ __forceinline__ RowShares shares_of_row(int r) const {
    RowShares found;
    float2 stats[Traits::kKeyWarps];
#pragma unroll
    for (int i = 0; i < Traits::kKeyWarps; ++i) {
      stats[i] = share_of_keys(r / 16, i).stats[r % 16];
      found.maximum = fmaxf(found.maximum, stats[i].x);
    }
#pragma unroll
    for (int i = 0; i < Traits::kKeyWarps; ++i) {
      found.shares[i] = share_of(stats[i].x, found.maximum, p.scale_log2);
      found.sum += stats[i].y * found.shares[i];
    }
    return found;
  }
  // Neighbouring threads have a row, and find its shares once for all their columns.
  __device__ __forceinline__ void add_shares(const DecodeTask& task, const Part& part, bool whole) const {
    constexpr int kReadersLog2 = Traits::kColumnWarps > 1 ? 8 : 7;
    static_assert(Traits::kReaderThreads == 1 << kReadersLog2 && Traits::kRows <= Traits::kReaderThreads);
    const int log2 = kReadersLog2 - (32 - __clz(task.rows - 1)), threads = 1 << log2;  // of a row
    const int r = thread >> log2, first = (thread & (threads - 1)) * 4;
    if (r >= task.rows) return;
    const ResultRow row = result_row(task, r);
    const RowShares found = shares_of_row(r);
    // Of a row without a key the sum is 0, and so are its values.
    const float factor = !whole ? 1.f : found.sum > 0.f ? reciprocal_approx(found.sum) : found.sum;
#pragma unroll 2
    for (int column = first; column < p.head_dim; column += 4 * threads) {
      float4 total = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
      for (int i = 0; i < Traits::kKeyWarps; ++i) {
        const float4 v = *reinterpret_cast<const float4*>(share_of_keys(r / 16, i).at(r % 16, column));
        const float share = found.shares[i] * factor;
        total.x += v.x * share, total.y += v.y * share, total.z += v.z * share, total.w += v.w * share;
      }
      if (whole) row.template write<Element>(column, total);
      else __stcg(reinterpret_cast<float4*>(part.row(r) + column), total);
    }
    if (first > 0) return;
    if (whole) row.write_lse(found.maximum, found.sum, p.scale_log2);
    else __stcg(reinterpret_cast<float2*>(part.stats(r)), make_float2(found.maximum, found.sum));
  }
};

}  // namespace stof::cuda
