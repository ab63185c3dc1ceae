// SPDX-License-Identifier: Apache-2.0
// Attention of few rows over few keys: what takes time is the way from one launch to the next, and no memory. A CTA, or
// a cluster of them, has up to 16 rows that share a key head; its warps have groups of 16 keys each, in memory of their
// own, and nobody waits for others until all of them add up what they have.
#pragma once
#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/gemm_traits.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/output.cuh"
#include "kernels/shared/few_keys.h"

namespace stof::cuda {

template <class Element_, int kHeadDim_, int kSlabs_>
struct FewKeysTraits {
  using Element = Element_;
  using Storage = typename StorageOf<Element>::Type;
  static constexpr int kHeadDim = kHeadDim_, kSlabs = kSlabs_, kRows = kSlabs * FewKeysGrid::kSlab;
  static constexpr int kFours = kHeadDim / 4;                      // results of a row: four columns each
  static constexpr int kPitch = kHeadDim + FewKeysGrid::kPadding;  // floats of a row of sums
  static constexpr bool kHoldsQueries = kSlabs * kHeadDim <= 128;  // in registers
  static constexpr int kCtas = kSlabs * kHeadDim <= 128 ? 2 : 1;   // that a multiprocessor holds, at least
};

// Where a key and its value lie.
struct KeyPlace {
  const unsigned short *k, *v;
  bool there;
};

// A warp's groups. k and v of a group are 16 rows each; Keys says which keys there are, and where.
template <class Traits, class Keys>
struct KeyGroups {
  using Rows = SwizzledRows<Traits::kHeadDim>;
  static constexpr int kRowPieces = Traits::kHeadDim / 8, kKeys = FewKeysGrid::kGroup;
  static constexpr u32 kHalfBytes = kKeys * Rows::kBytes, kBytes = 2 * kHalfBytes;
  const Keys& keys;
  u32 memory;  // of this warp's stages
  int lane, head_dim;

  __device__ __forceinline__ u32 k(int at) const { return memory + at * kBytes; }
  __device__ __forceinline__ u32 v(int at) const { return k(at) + kHalfBytes; }
  // Zeros for keys that are not there, and behind the head's last column.
  __device__ __forceinline__ void load(int group, int at) const {
    constexpr int kEach = kKeys * kRowPieces / 32, kTogether = kEach < 4 ? kEach : 4;
    const int piece = lane % kRowPieces;
    const bool has_piece = piece * 8 < head_dim;
#pragma unroll
    for (int first = 0; first < kEach; first += kTogether) {
      KeyPlace places[kTogether];  // those in pages are looked up together
#pragma unroll
      for (int i = 0; i < kTogether; ++i)
        places[i] = keys.place(group * kKeys + (32 * (first + i) + lane) / kRowPieces);
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const u32 to = k(at) + Rows::offset((32 * (first + i) + lane) / kRowPieces, piece);
        const bool there = places[i].there && has_piece;
        const int column = has_piece ? piece * 8 : 0;
        copy_piece(to, places[i].k + column, there);
        copy_piece(to + kHalfBytes, places[i].v + column, there);
      }
    }
  }
};

// Rows of q as the second operand of scores: of a step of 16 columns two registers a slab.
template <class Traits>
struct KeyQueries {
  static constexpr int kPieces = Traits::kHeadDim / 8;
  u32 rows;
  int lane;
  u32 held[Traits::kHoldsQueries ? Traits::kSlabs : 1][Traits::kHoldsQueries ? kPieces : 4];

  __device__ __forceinline__ KeyQueries(u32 address, int of_lane) : rows(address), lane(of_lane) {
    if constexpr (Traits::kHoldsQueries)
#pragma unroll
      for (int slab = 0; slab < Traits::kSlabs; ++slab)
#pragma unroll
        for (int piece = 0; piece < kPieces; piece += 4) {
          u32 four[4];
          load(four, slab, piece);
#pragma unroll
          for (int i = 0; i < 4; ++i) held[slab][piece + i] = four[i];
        }
  }
  __device__ __forceinline__ void load(u32 (&four)[4], int slab, int piece) const {
    load_fragments(four, rows + SwizzledRows<Traits::kHeadDim>::offset(8 * slab + lane % 8, piece + lane / 8));
  }
  // Of two steps from an even one on.
  __device__ __forceinline__ void of_steps(u32 (&four)[4], int slab, int step) const {
    if constexpr (Traits::kHoldsQueries)
#pragma unroll
      for (int i = 0; i < 4; ++i) four[i] = held[slab][2 * step + i];
    else load(four, slab, 2 * step);
  }
};

// Products have keys, or columns of values, as rows, and rows of q as columns: an 8 x 8 matrix of weights is turned on
// the way from one to the other.
__device__ __forceinline__ u32 turned_matrix(u32 matrix) {
  u32 turned;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(matrix));
  return turned;
}

// Of a warp, over its groups: of each slab lane l has rows 2 (l % 4) and the next one.
template <class Traits>
struct KeySums {
  static constexpr int kSteps = Traits::kHeadDim / 16, kSlabs = Traits::kSlabs;
  using Rows = SwizzledRows<Traits::kHeadDim>;
  using Element = typename Traits::Element;
  int lane;
  float scale_log2, cap_log2;
  float out[kSlabs][kSteps][4] = {};  // columns l / 4 and l / 4 + 8 of each 16, of either row
  float maximum[kSlabs][2], sum[kSlabs][2] = {};

  __device__ __forceinline__ KeySums(int of_lane, float scale, float cap)
      : lane(of_lane), scale_log2(scale), cap_log2(cap) {
#pragma unroll
    for (int slab = 0; slab < kSlabs; ++slab) maximum[slab][0] = maximum[slab][1] = kMinusInfinity;
  }

  // sees(key): whether the rows see a key of the group.
  template <class Sees>
  __device__ __forceinline__ void add(u32 k, u32 v, const KeyQueries<Traits>& q, const Sees& sees) {
    float scores[kSlabs][2][4] = {};  // two chains
    const int row = lane % 16, half = lane / 16;
#pragma unroll
    for (int step = 0; step < kSteps; step += 2) {
      u32 even[4], odd[4];
      load_fragments(even, k + Rows::offset(row, 2 * step + half));
      load_fragments(odd, k + Rows::offset(row, 2 * step + 2 + half));
#pragma unroll
      for (int slab = 0; slab < kSlabs; ++slab) {
        u32 of_q[4];
        q.of_steps(of_q, slab, step);
        multiply_add<Element>(scores[slab][0], even, of_q[0], of_q[1]);
        multiply_add<Element>(scores[slab][1], odd, of_q[2], of_q[3]);
      }
    }
    u32 low[kSlabs], high[kSlabs];
#pragma unroll
    for (int slab = 0; slab < kSlabs; ++slab) {
      float weights[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) weights[i] = scores[slab][0][i] + scores[slab][1][i];
      cap_scores(weights, cap_log2);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (!sees(lane / 4 + i / 2 * 8)) weights[i] = kMinusInfinity;
      weigh(weights, slab);
      low[slab] = turned_matrix(Element::pack(weights[0], weights[1]));
      high[slab] = turned_matrix(Element::pack(weights[2], weights[3]));
    }
    const int key = lane % 8 + lane / 16 * 8, side = lane / 8 % 2;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      u32 fragments[4];
      load_transposed_fragments(fragments, v + Rows::offset(key, 2 * step + side));
#pragma unroll
      for (int slab = 0; slab < kSlabs; ++slab)
        multiply_add<Element>(out[slab][step], fragments, low[slab], high[slab]);
    }
  }
  // Rows of kPitch floats; of sums those over all lanes.
  __device__ __forceinline__ void leave(float* values, float2* stats) {
#pragma unroll
    for (int slab = 0; slab < kSlabs; ++slab)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int row = 8 * slab + lane % 4 * 2 + e;
        float total = sum[slab][e];
        for (int step = 4; step < 32; step *= 2) total += __shfl_xor_sync(~0u, total, step);
        if (lane < 4) stats[row] = make_float2(maximum[slab][e], total);
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          values[row * Traits::kPitch + 16 * step + lane / 4] = out[slab][step][e];
          values[row * Traits::kPitch + 16 * step + lane / 4 + 8] = out[slab][step][2 + e];
        }
      }
  }

 private:
  __device__ __forceinline__ void weigh(float (&weights)[4], int slab) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float highest = fmaxf(weights[e], weights[2 + e]);
#pragma unroll
      for (int step = 4; step < 32; step *= 2) highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, step));
      highest = fmaxf(highest, maximum[slab][e]);
      const float before = share_of(maximum[slab][e], highest, scale_log2);
      maximum[slab][e] = highest;
      sum[slab][e] *= before;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) out[slab][step][e] *= before, out[slab][step][2 + e] *= before;
      const float origin = highest == kMinusInfinity ? 0.f : highest * scale_log2;
#pragma unroll
      for (int i = e; i < 4; i += 2) {
        weights[i] = exp2_approx(__fmaf_rn(weights[i], scale_log2, -origin));
        sum[slab][e] += weights[i];
      }
    }
  }
};

// Four columns of a row, and the row's stats.
struct KeyPart {
  float4 values;
  float maximum, sum;

  __device__ __forceinline__ bool is_empty() const { return maximum == kMinusInfinity && sum == 0.f; }
  template <class Element>
  __device__ __forceinline__ uint2 packed() const {
    const float inverse = is_empty() ? 0.f : reciprocal_approx(sum);
    return make_uint2(Element::pack(values.x * inverse, values.y * inverse),
                      Element::pack(values.z * inverse, values.w * inverse));
  }
};

// Of as many parts as there are; what is behind them nobody wrote.
template <int kMost, class Stats, class Values>
__device__ __forceinline__ KeyPart sum_of_key_parts(int count, float scale_log2, const Stats& stats,
                                                    const Values& values) {
  float2 of[kMost];
  KeyPart total{make_float4(0.f, 0.f, 0.f, 0.f), kMinusInfinity, 0.f};
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    of[i] = i < count ? stats(i) : make_float2(kMinusInfinity, 0.f);
    total.maximum = fmaxf(total.maximum, of[i].x);
  }
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    if (i >= count) break;
    const float share = share_of(of[i].x, total.maximum, scale_log2);
    const float4 more = values(i);
    total.sum += of[i].y * share;
    total.values.x += more.x * share, total.values.y += more.y * share;
    total.values.z += more.z * share, total.values.w += more.w * share;
  }
  return total;
}

// Of a CTA: which groups it has, and what its warps leave.
template <class Traits>
struct KeyCta {
  using Grid = FewKeysGrid;
  static constexpr int kFours = Traits::kFours;
  float2 (&stats)[Grid::kWarps][Traits::kRows];
  float2 (&all_stats)[Traits::kRows];
  unsigned char* memory;
  int stages, warp_bytes;
  float scale_log2;
  int rank, ranks, groups, rows;  // groups of all ranks; rows that there are

  __device__ __forceinline__ int first(int warp) const { return warp * ranks + rank; }
  __device__ __forceinline__ int step() const { return Grid::kWarps * ranks; }
  // Behind the groups: rows of q, and what else a kernel has there; results.
  __device__ __forceinline__ unsigned short* queries() const {
    return reinterpret_cast<unsigned short*>(memory + Grid::kWarps * warp_bytes);
  }
  __device__ __forceinline__ float* part(int warp) const {
    return reinterpret_cast<float*>(memory + warp * warp_bytes);
  }

  template <class Groups>
  __device__ __forceinline__ void ask(const Groups& of, int warp) const {
    for (int i = 0; i < stages; ++i) {
      if (first(warp) + i * step() < groups) of.load(first(warp) + i * step(), i);
      commit_copies();
    }
  }
  // before(group, place): of a group that is there, before it is multiplied. sees(group) gives what sums want to know.
  template <class Groups, class Before, class Sees>
  __device__ __forceinline__ void add_groups(const Groups& of, KeySums<Traits>& sums, int warp, const Before& before,
                                             const Sees& sees) const {
    const KeyQueries<Traits> q(shared_address(queries()), of.lane);
    int at = 0;
#pragma unroll 1
    for (int group = first(warp); group < groups; group += step()) {
      if (stages == 1) wait_for_copies_but<0>();
      else wait_for_copies_but<1>();
      __syncwarp();
      before(group, at);
      sums.add(of.k(at), of.v(at), q, sees(group));
      __syncwarp();
      if (group + stages * step() < groups) of.load(group + stages * step(), at);
      commit_copies();
      at = at + 1 == stages ? 0 : at + 1;
    }
    if (first(warp) < groups) sums.leave(part(warp), stats[warp]);
  }

  // Behind a barrier: write(row, column, part) of each row's every four columns, by one CTA of the cluster. By whole
  // CTAs. results: memory for all of them, float4 each.
  template <class Write>
  __device__ __forceinline__ void give(float4* results, const Write& write) const {
    const int active = min(max((groups - rank + ranks - 1) / ranks, 0), Grid::kWarps), count = rows * kFours;
#pragma unroll 1
    for (int at = static_cast<int>(threadIdx.x); at < count; at += Grid::kThreads) {
      const int row = at / kFours, column = at % kFours * 4;
      const KeyPart total = sum_of_key_parts<Grid::kWarps>(
          active, scale_log2, [&](int i) { return stats[i][row]; },
          [&](int i) { return *reinterpret_cast<const float4*>(part(i) + row * Traits::kPitch + column); });
      if (ranks == 1) {
        write(row, column, total);
        continue;
      }
      results[at] = total.values;
      if (column == 0) all_stats[row] = make_float2(total.maximum, total.sum);
    }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (ranks > 1) give_ranks(results, count, write);
#endif
  }

 private:
  // Each rank has the results that its number says.
  template <class Write>
  __device__ __forceinline__ void give_ranks(const float4* results, int count, const Write& write) const {
    cluster_meet();
#pragma unroll 1
    for (int at = static_cast<int>(threadIdx.x) * ranks + rank; at < count; at += Grid::kThreads * ranks) {
      const int row = at / kFours;
      write(row, at % kFours * 4,
            sum_of_key_parts<Grid::kMostRanks>(
                min(ranks, groups), scale_log2, [&](int i) { return pair_of_rank(shared_address(&all_stats[row]), i); },
                [&](int i) { return four_of_rank(shared_address(results + at), i); }));
    }
    cluster_meet();  // nobody leaves whose memory is read
  }
};

}  // namespace stof::cuda
