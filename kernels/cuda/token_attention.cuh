// SPDX-License-Identifier: Apache-2.0
// Attention of a step that is short: one token for each text, over few keys. What takes time there is the way from one
// launch to the next, so that all that stands between two products is one launch: heads are divided by their root mean
// square, turned, kept, and attended to. A CTA, or a cluster of them, has a text's heads of q for one of k; its warps
// have groups of 16 keys each, of which the first are on their way before the kernel in front has ended: that one makes
// the token, and nothing of the texts before it.
#pragma once
#include "kernels/cuda/gemm_traits.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/output.cuh"
#include "kernels/cuda/token_rows.cuh"

namespace stof::cuda {

// Products have keys, or columns of values, as rows, and heads of q as columns: an 8 x 8 matrix of weights is turned on
// the way from one to the other.
__device__ __forceinline__ u32 turned_matrix(u32 matrix) {
  u32 turned;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(matrix));
  return turned;
}

// A warp's groups: which, and where they lie. k and v of a group are 16 rows each.
template <class Traits>
struct TokenGroups {
  using Rows = SwizzledRows<Traits::kHeadDim>;
  static constexpr int kRowPieces = Traits::kHeadDim / 8, kKeys = TokenAttentionGrid::kGroup;
  static constexpr u32 kHalfBytes = kKeys * Rows::kBytes, kBytes = 2 * kHalfBytes;
  const TokenKeys& keys;
  const unsigned short* cache;  // k of the text's first row, of this key head
  long long row_stride;         // elements
  int values;                   // elements from a key to its value
  u32 memory;                   // of this warp's stages
  int lane;

  __device__ __forceinline__ u32 stage(int at) const { return memory + at * kBytes; }
  // Zeros for the token's own row, which is not there yet, and behind the last key.
  __device__ __forceinline__ void load(int group, int at) const {
#pragma unroll
    for (int i = 0; i < kKeys * kRowPieces / 32; ++i) {
      const int row = (32 * i + lane) / kRowPieces, piece = (32 * i + lane) % kRowPieces;
      const int index = group * kKeys + row;
      const bool there = index < keys.count && index != keys.own;
      const unsigned short* const key = cache + (there ? keys.key(index) : 0) * row_stride + piece * 8;
      const u32 to = stage(at) + Rows::offset(row, piece);
      copy_piece(to, key, there);
      copy_piece(to + kHalfBytes, key + values, there);
    }
  }
  // own: of the token, k and behind it v.
  __device__ __forceinline__ void add_own(int group, int at, const unsigned short* own) const {
    if (keys.own / kKeys != group || keys.own < 0) return;
    for (int i = lane; i < 2 * kRowPieces; i += 32)
      store_piece(stage(at) + i / kRowPieces * kHalfBytes + Rows::offset(keys.own % kKeys, i % kRowPieces),
                  *reinterpret_cast<const uint4*>(own + i * 8));
    __syncwarp();
  }
};

// Of a warp, over its groups: lane l has heads 2 (l % 4) and the next one.
template <class Traits>
struct TokenSums {
  static constexpr int kSteps = Traits::kHeadDim / 16;
  using Rows = SwizzledRows<Traits::kHeadDim>;
  using Element = typename Traits::Element;
  int lane;
  float scale_log2;
  float out[kSteps][4] = {};  // column l / 4 and l / 4 + 8 of each 16, of either head
  float maximum[2] = {kMinusInfinity, kMinusInfinity}, sum[2] = {};

  // keys: that exist of the group.
  __device__ __forceinline__ void add(u32 k, u32 v, const u32 (&q)[2 * kSteps], int keys) {
    float scores[2][4] = {};  // two chains
    const int row = lane % 16, half = lane / 16;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      u32 fragments[4];
      load_fragments(fragments, k + Rows::offset(row, 2 * step + half));
      multiply_add<Element>(scores[step % 2], fragments, q[2 * step], q[2 * step + 1]);
    }
    float weights[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) weights[i] = lane / 4 + i / 2 * 8 < keys ? scores[0][i] + scores[1][i] : kMinusInfinity;
    weigh(weights);
    const u32 low = turned_matrix(Element::pack(weights[0], weights[1])),
              high = turned_matrix(Element::pack(weights[2], weights[3]));
    const int key = lane % 8 + lane / 16 * 8, side = lane / 8 % 2;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      u32 fragments[4];
      load_transposed_fragments(fragments, v + Rows::offset(key, 2 * step + side));
      multiply_add<Element>(out[step], fragments, low, high);
    }
  }
  // Rows of kPitch floats, a head each; sums over all lanes.
  __device__ __forceinline__ void leave(float* values, float2* stats) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int head = lane % 4 * 2 + e;
      for (int step = 4; step < 32; step *= 2) sum[e] += __shfl_xor_sync(~0u, sum[e], step);
      if (lane < 4) stats[head] = make_float2(maximum[e], sum[e]);
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        values[head * Traits::kPitch + 16 * step + lane / 4] = out[step][e];
        values[head * Traits::kPitch + 16 * step + lane / 4 + 8] = out[step][2 + e];
      }
    }
  }

 private:
  __device__ __forceinline__ void weigh(float (&weights)[4]) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float highest = fmaxf(weights[e], weights[2 + e]);
#pragma unroll
      for (int step = 4; step < 32; step *= 2) highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, step));
      highest = fmaxf(highest, maximum[e]);
      const float before = share_of(maximum[e], highest, scale_log2);
      maximum[e] = highest;
      sum[e] *= before;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) out[step][e] *= before, out[step][2 + e] *= before;
      const float origin = highest == kMinusInfinity ? 0.f : highest * scale_log2;
#pragma unroll
      for (int i = e; i < 4; i += 2) {
        weights[i] = exp2_approx(__fmaf_rn(weights[i], scale_log2, -origin));
        sum[e] += weights[i];
      }
    }
  }
};

// Four columns of a head's row, and the row's stats.
struct TokenPart {
  float4 values;
  float maximum, sum;
};

// Of as many parts as there are; those without keys are not looked at, for nobody wrote them.
template <int kMost, class Stats, class Values>
__device__ __forceinline__ TokenPart sum_of_token_parts(int count, float scale_log2, const Stats& stats,
                                                        const Values& values) {
  float2 of[kMost];
  TokenPart total{make_float4(0.f, 0.f, 0.f, 0.f), kMinusInfinity, 0.f};
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

template <class Traits>
__device__ __forceinline__ void write_token_part(const TokenAttentionParams& p, const TokenPlace& place, int head,
                                                 int column, const TokenPart& part) {
  using Element = typename Traits::Element;
  const float inverse = part.sum > 0.f ? reciprocal_approx(part.sum) : part.sum;
  const float4& v = part.values;
  auto* const row =
      static_cast<unsigned short*>(p.out) +
      (static_cast<long long>(place.text) * p.heads + place.kv_head * place.group + head) * Traits::kHeadDim;
  *reinterpret_cast<uint2*>(row + column) =
      make_uint2(Element::pack(v.x * inverse, v.y * inverse), Element::pack(v.z * inverse, v.w * inverse));
}

// Of a CTA: which groups it has, and what its warps leave. A thread has four columns of one head's result.
template <class Traits>
struct TokenCta {
  using Grid = TokenAttentionGrid;
  using Groups = TokenGroups<Traits>;
  static constexpr int kFours = Traits::kHeadDim / 4;
  const TokenAttentionParams& p;
  const TokenPlace& place;
  float2 (&stats)[Grid::kWarps][Grid::kMostHeads];
  unsigned char* memory;
  int rank, ranks, end;  // of the groups of all ranks

  __device__ __forceinline__ u32 stages_bytes() const { return p.stages * Groups::kBytes; }
  __device__ __forceinline__ int first(int warp) const { return warp * ranks + rank; }
  __device__ __forceinline__ int step() const { return Grid::kWarps * ranks; }
  // Behind the groups: heads of q, k, v.
  __device__ __forceinline__ unsigned short* rows() const {
    return reinterpret_cast<unsigned short*>(memory + Grid::kWarps * stages_bytes());
  }
  __device__ __forceinline__ float* part(int warp) const {
    return reinterpret_cast<float*>(memory + warp * stages_bytes());
  }

  __device__ __forceinline__ void ask(const Groups& groups, int warp) const {
    for (int i = 0; i < p.stages; ++i) {
      if (first(warp) + i * step() < end) groups.load(first(warp) + i * step(), i);
      commit_copies();
    }
  }
  __device__ __forceinline__ void add_groups(const Groups& groups, int warp, int lane) const {
    const unsigned short* const own = rows() + Grid::kMostHeads * Traits::kHeadDim;
    u32 q[Traits::kHeadDim / 8];
    load_token_queries<Traits>(q, shared_address(rows()), lane);
    TokenSums<Traits> sums{lane, p.scale_log2};
    int at = 0;
#pragma unroll 1
    for (int group = first(warp); group < end; group += step()) {
      if (p.stages == 1) wait_for_copies_but<0>();
      else wait_for_copies_but<1>();
      __syncwarp();
      groups.add_own(group, at, own);
      const u32 k = groups.stage(at);
      sums.add(k, k + Groups::kHalfBytes, q, groups.keys.count - group * Grid::kGroup);
      __syncwarp();
      if (group + p.stages * step() < end) groups.load(group + p.stages * step(), at);
      commit_copies();
      at = at + 1 == p.stages ? 0 : at + 1;
    }
    if (first(warp) < end) sums.leave(part(warp), stats[warp]);
  }

  __device__ __forceinline__ bool has_result() const { return static_cast<int>(threadIdx.x) < place.group * kFours; }
  // Behind a barrier.
  __device__ __forceinline__ TokenPart add_warps() const {
    if (!has_result()) return TokenPart{};
    const int head = static_cast<int>(threadIdx.x) / kFours, column = static_cast<int>(threadIdx.x) % kFours * 4;
    const int active = min(max((end - rank + ranks - 1) / ranks, 0), Grid::kWarps);
    return sum_of_token_parts<Grid::kWarps>(
        active, p.scale_log2, [&](int i) { return stats[i][head]; },
        [&](int i) { return *reinterpret_cast<const float4*>(part(i) + head * Traits::kPitch + column); });
  }
  // Of those of all ranks, each adds up and writes as many. By whole CTAs.
  __device__ __forceinline__ void add_ranks(const TokenPart& part) const {
    __shared__ float2 all[Grid::kMostHeads];
    auto* const values = reinterpret_cast<float4*>(rows() + (Grid::kMostHeads + 2) * Traits::kHeadDim);
    if (has_result()) {
      values[threadIdx.x] = part.values;
      if (threadIdx.x % kFours == 0) all[threadIdx.x / kFours] = make_float2(part.maximum, part.sum);
    }
    cluster_meet();
    const int result = static_cast<int>(threadIdx.x) * ranks + rank, head = result / kFours;
    if (head < place.group) {
      const TokenPart total = sum_of_token_parts<Grid::kMostRanks>(
          min(ranks, end), p.scale_log2, [&](int i) { return pair_of_rank(shared_address(&all[head]), i); },
          [&](int i) { return four_of_rank(shared_address(values + result), i); });
      write_token_part<Traits>(p, place, head, result % kFours * 4, total);
    }
    cluster_meet();  // nobody leaves whose memory is read
  }
  __device__ __forceinline__ void write(const TokenPart& part) const {
    if (!has_result()) return;
    const int thread = static_cast<int>(threadIdx.x);
    write_token_part<Traits>(p, place, thread / kFours, thread % kFours * 4, part);
  }
};

// Grid: {ranks, key heads, texts}, the ranks being a cluster. Shared memory: TokenAttentionGrid::shared_bytes. Needs:
// at most kMostHeads heads of q for one of k, all addresses at multiples of 16 bytes. What is read before the wait has
// been written by kernels in front of the one in front, which has waited for these before it let this one begin.
template <class Traits>
__global__ void __launch_bounds__(TokenAttentionGrid::kThreads, 2)
    token_attention_kernel(const __grid_constant__ TokenAttentionParams p) {
  using Grid = TokenAttentionGrid;
  constexpr int kHeadDim = Traits::kHeadDim;
  extern __shared__ __align__(1024) unsigned char raw[];
  __shared__ float2 stats[Grid::kWarps][Grid::kMostHeads];
  const int warp = uniform(static_cast<int>(threadIdx.x) / 32), lane = static_cast<int>(threadIdx.x) % 32;
  const TokenPlace place{static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.y), p.heads / p.kv_heads};
  const TokenKeys keys(p, __ldcg(p.lengths + place.text));
  const TokenCta<Traits> cta{p,
                             place,
                             stats,
                             raw,
                             static_cast<int>(blockIdx.x),
                             static_cast<int>(gridDim.x),
                             (keys.count + Grid::kGroup - 1) / Grid::kGroup};
  const TokenGroups<Traits> groups{
      .keys = keys,
      .cache = static_cast<const unsigned short*>(p.cache) + place.text * p.text_stride + place.kv_head * kHeadDim,
      .row_stride = 2ll * p.kv_heads * kHeadDim,
      .values = p.kv_heads * kHeadDim,
      .memory = shared_address(cta.part(warp)),
      .lane = lane};
  cta.ask(groups, warp);
  TokenRow<Traits> row(p, place, cta.rows());
  row.ask_for_constants();
  follow_previous_grid();
  row.bring(cta.rank == 0);
  __syncthreads();
  cta.add_groups(groups, warp, lane);
  __syncthreads();
  const TokenPart part = cta.add_warps();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (cta.ranks > 1) return cta.add_ranks(part);
#endif
  cta.write(part);
}

}  // namespace stof::cuda
