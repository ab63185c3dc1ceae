// SPDX-License-Identifier: Apache-2.0
// The two matmuls of a decode tile: by warps, each with 16 rows and some of the keys, which it reads from shared memory
// by itself, or by a warpgroup with 64 rows, whose tensor cores read them once.
#pragma once
#include "kernels/cuda/decode_ring.cuh"
#include "kernels/cuda/decode_tasks.cuh"
#include "kernels/cuda/softmax.cuh"
#include "kernels/cuda/warp_scores.cuh"

namespace stof::cuda {

// Where row r of a task begins, or of its first row if there is none.
template <class Traits>
__device__ __forceinline__ const unsigned short* query_row(const DecodeParams& p, const DecodeTask& task, int r) {
  const RowItem item = item_of<Traits::kConstantItems>(p, task);
  const DecodePlace place = task.place_of(r < task.rows ? r : 0, item);
  return static_cast<const unsigned short*>(p.q) + item.q + place.head * p.q_stride.head + place.query * p.q_stride.row;
}

template <class Traits, bool kOfWarpgroups = (Traits::kWarpgroups > 0)>
struct DecodeMatmuls;

template <class Traits>
struct DecodeMatmuls<Traits, false> {
  using Element = typename Traits::Element;
  using Rows = TileRows<Traits::kHeadDim>;
  static constexpr int kColumns = Traits::kColumns, kWarpKeys = Traits::kWarpKeys;
  typename Traits::Shared& shared;
  int lane, of_four, row_warp, key_warp;
  int column_warp, turn = 0;  // of score_halves
  u32 queries[kColumns / 4];  // A operands of the scores

  __device__ __forceinline__ DecodeMatmuls(typename Traits::Shared& memory, int thread)
      : shared(memory),
        lane(thread % 32),
        of_four(Traits::kColumnWarps > 1 ? thread / 32 % 4 : thread / 32),
        row_warp(of_four / Traits::kKeyWarps),
        key_warp(of_four % Traits::kKeyWarps),
        column_warp(Traits::kColumnWarps > 1 ? thread / 128 : 0) {}

  // Once the grid in front has ended. Rows and columns that are not there are 0.
  __device__ __forceinline__ void load_queries(const DecodeParams& p, const DecodeTask& task) {
    const int first = 16 * row_warp + lane / 4;
    const unsigned short* const rows[2] = {query_row<Traits>(p, task, first), query_row<Traits>(p, task, first + 8)};
    wait_for_inputs(p);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const unsigned short* const row = rows[i] + column_warp * kColumns + lane % 4 * 2;
      const int columns = p.head_dim - column_warp * kColumns;
#pragma unroll
      for (int j = 0; j < kColumns / 8; ++j)
        queries[2 * j + i] =
            first + 8 * i < task.rows && 8 * j < columns ? *reinterpret_cast<const u32*>(row + 8 * j) : 0u;
    }
  }
  __device__ __forceinline__ void wait_for_queries() const {}
  __device__ __forceinline__ void see_copies() const {}

  __device__ __forceinline__ void score(float (&scores)[kWarpKeys / 2], u32 keys) {
#pragma unroll
    for (int i = 0; i < kWarpKeys / 2; ++i) scores[i] = 0.f;
    const u32 first = my_columns(keys) + Rows::offset(key_warp * kWarpKeys + lane / 16 * 8 + lane % 8, lane / 8 % 2);
#pragma unroll
    for (int step = 0; step < kColumns / 16; ++step)
#pragma unroll
      for (int j = 0; j < kWarpKeys / 16; ++j) {
        u32 b[4];
        load_fragments(b, Rows::along(first, 2 * step) + static_cast<u32>(16 * j) * kRowBytes);
        multiply_add<Element>(scores + 8 * j, queries + 4 * step, b[0], b[1]);
        multiply_add<Element>(scores + 8 * j + 4, queries + 4 * step, b[2], b[3]);
      }
    if constexpr (Traits::kColumnWarps > 1) add_halves(scores);
  }

  __device__ __forceinline__ void add_values(float (&out)[kColumns / 2], const u32 (&weights)[kWarpKeys / 4],
                                             u32 values) const {
    const u32 first = my_columns(values) + Rows::offset(key_warp * kWarpKeys + lane / 8 % 2 * 8 + lane % 8, lane / 16);
#pragma unroll
    for (int j = 0; j < kWarpKeys / 16; ++j)
#pragma unroll
      for (int column = 0; column < kColumns / 16; ++column) {
        u32 b[4];
        load_transposed_fragments(b, Rows::along(first, 2 * column) + static_cast<u32>(16 * j) * kRowBytes);
        multiply_add<Element>(out + 8 * column, weights + 4 * j, b[0], b[1]);
        multiply_add<Element>(out + 8 * column + 4, weights + 4 * j, b[2], b[3]);
      }
  }

 private:
  // Of keys or values.
  __device__ __forceinline__ u32 my_columns(u32 tile) const {
    return tile + static_cast<u32>(column_warp) * (kColumns / kBoxColumns * Rows::kBoxBytes);
  }
  // Of both warps of these rows and keys, which come to the same sums.
  __device__ __forceinline__ void add_halves(float (&scores)[kWarpKeys / 2]) {
#pragma unroll
    for (int i = 0; i < kWarpKeys / 2; i += 8, turn ^= 1) {
      float4(&halves)[Traits::kColumnWarps][4][2][32] = shared.score_halves[turn];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float* const mine = scores + i + 4 * j;
        halves[column_warp][of_four][j][lane] = make_float4(mine[0], mine[1], mine[2], mine[3]);
      }
      named_barrier<64>(2 + of_four);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float4 others = halves[column_warp ^ 1][of_four][j][lane];
        float* const mine = scores + i + 4 * j;
        mine[0] += others.x, mine[1] += others.y, mine[2] += others.z, mine[3] += others.w;
      }
    }
  }
};

template <class Traits>
struct DecodeMatmuls<Traits, true> {
  using Element = typename Traits::Element;
  using Rows = TileRows<Traits::kHeadDim>;
  static constexpr int kHeadDim = Traits::kHeadDim, kKeys = Traits::kTileKeys, kThreads = Traits::kReaderThreads;
  int thread;
  u32 queries;  // where they lie in shared memory

  __device__ __forceinline__ DecodeMatmuls(typename Traits::Shared& shared, int reader)
      : thread(reader), queries(shared_address(shared.queries)) {}

  // Once the grid in front has ended. Rows and columns that are not there are 0. All readers have left the queries of
  // before. A lane finds where one of its warp's rows begins, for all.
  __device__ __forceinline__ void load_queries(const DecodeParams& p, const DecodeTask& task) {
    constexpr int kPieces = kHeadDim / 8, kAtOnce = 32 / kPieces, kOfWarp = Traits::kRows / (kThreads / 32);
    const int lane = thread % 32, first = thread / 32 * kOfWarp, piece = lane % kPieces;
    const auto row_of_lane = reinterpret_cast<u64>(query_row<Traits>(p, task, first + lane % kOfWarp));
    wait_for_inputs(p);
#pragma unroll
    for (int i = 0; i < kOfWarp; i += kAtOnce) {
      const int at = i + lane / kPieces;
      const auto* const row = reinterpret_cast<const unsigned short*>(__shfl_sync(~0u, row_of_lane, at));
      const bool there = first + at < task.rows && piece * 8 < p.head_dim;
      copy_piece(queries + Rows::offset(first + at, piece), row + (there ? piece * 8 : 0), there);
    }
  }
  __device__ __forceinline__ void wait_for_queries() const {
    wait_for_copies();
    fence_async_proxy();
    named_barrier<1, kThreads>();
  }

  // Before products of keys or values, which are copied piece by piece, and once these are there.
  __device__ __forceinline__ void see_copies() const { fence_async_proxy(); }

  // Without waiting for the products.
  __device__ __forceinline__ void issue_scores(float (&scores)[kKeys / 2], u32 keys) const {
    cuda::issue_scores<Element, kHeadDim, kKeys>(scores, descriptor(queries), descriptor(keys));
  }
  __device__ __forceinline__ void score(float (&scores)[kKeys / 2], u32 keys) const {
    see_copies();
    issue_scores(scores, keys);
    matmul_wait<0>();
    pin(scores);
  }

  // By one warp for its own rows: the others may be at their values.
  __device__ __forceinline__ void score_again(float (&scores)[kKeys / 2], u32 keys) const {
    const u32 row_warp = static_cast<u32>(thread) % 128 / 32;
    multiply_scores<Element, kHeadDim, kKeys>(scores, queries + row_warp * (16 * kRowBytes), keys,
                                              static_cast<u32>(thread) % 32);
  }

  __device__ __forceinline__ void add_values(float (&out)[kHeadDim / 2], const u32 (&weights)[kKeys / 4],
                                             u32 values) const {
    issue_values(out, weights, values);
    matmul_wait<0>();
    pin(out);
  }
  // Without waiting for the products.
  __device__ __forceinline__ void issue_values(float (&out)[kHeadDim / 2], const u32 (&weights)[kKeys / 4],
                                               u32 values) const {
    cuda::issue_values<Element, kHeadDim, kKeys>(out, weights, descriptor(values, Rows::kBoxBytes));
  }
};

}  // namespace stof::cuda
