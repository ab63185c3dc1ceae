// SPDX-License-Identifier: Apache-2.0
// The row of one token: its heads of q for one of k, that key and its value, on their way from a product to
// token_attention.cuh; and which keys it sees.
#pragma once
#include "kernels/cuda/few_keys.cuh"
#include "kernels/cuda/halves.cuh"
#include "kernels/cuda/warp_sum.cuh"
#include "kernels/shared/token_attention.h"

namespace stof::cuda {

struct TokenPlace {
  int text, kv_head, group;  // heads of q for one of k
};

// Which keys the token sees, as one sequence: a prefix, and a range behind it.
template <class Traits>
struct TokenKeys {
  const unsigned short* cache;  // k of the text's first row, of this key head
  long long row_stride;         // elements
  int values;                   // elements from a key to its value
  int prefix, range, count;
  int own;  // the token's place in the sequence, or -1

  __device__ __forceinline__ TokenKeys(const TokenAttentionParams& p, const TokenPlace& place)
      : cache(static_cast<const unsigned short*>(p.cache) + place.text * p.text_stride +
              place.kv_head * Traits::kHeadDim),
        row_stride(2ll * p.kv_heads * Traits::kHeadDim),
        values(p.kv_heads * Traits::kHeadDim) {
    const int length = __ldcg(p.lengths + place.text), position = length - 1;
    const auto within = [&](int key) { return min(max(key, 0), length); };
    prefix = within(p.prefix_end), range = within(position + p.begin);
    const int end = within(position + p.end);
    count = prefix;
    if (range < end) {
      range = max(range, prefix);
      count += max(end - range, 0);
    }
    own = position < prefix ? position : position >= range && position < end ? position - range + prefix : -1;
  }
  // The token's own row is not there yet.
  __device__ __forceinline__ KeyPlace place(int index) const {
    const bool there = index < count && index != own;
    const int key = index < prefix ? index : index - prefix + range;
    const unsigned short* const k = cache + (there ? key : 0) * row_stride;
    return {k, k + values, there};
  }
};

// Rows of q in shared memory, and behind them k and v. A head has a lane for each 16 of its columns, 8 of either half.
template <class Traits>
struct TokenRow {
  using Storage = typename Traits::Storage;
  using V = Vector<Storage>;
  using Rows = SwizzledRows<Traits::kHeadDim>;
  static constexpr int kLanes = Traits::kHeadDim / 16, kHalf = Traits::kHeadDim / 2;
  const TokenAttentionParams& p;
  const TokenPlace& place;
  unsigned short* shared;
  int head, within;  // of the text's heads of q; then k, v, and none
  float scale_a[8], scale_b[8], cosine[8], sine[8];

  __device__ __forceinline__ TokenRow(const TokenAttentionParams& params, const TokenPlace& at, unsigned short* memory)
      : p(params),
        place(at),
        shared(memory),
        head(static_cast<int>(threadIdx.x) / kLanes),
        within(static_cast<int>(threadIdx.x) % kLanes * 8) {}
  __device__ __forceinline__ bool is_value() const { return head == place.group + 1; }
  __device__ __forceinline__ bool turns() const { return head <= place.group; }

  // Nothing of them depends on the kernel in front. Of heads of q that do not exist the rows are zeros.
  __device__ __forceinline__ void ask_for_constants() {
    if (p.q_scale != nullptr && turns()) {
      const float* const scale = head < place.group ? p.q_scale : p.k_scale;
      load_floats(scale + within, scale_a);
      load_floats(scale + kHalf + within, scale_b);
    }
    if (p.angles != nullptr && turns()) {
      const float* const angles = p.angles + __ldcg(p.positions + place.text) * (2ll * kHalf) + within;
      load_floats(angles, cosine);
      load_floats(angles + kHalf, sine);
    }
    const int missing = place.group + static_cast<int>(threadIdx.x) / (2 * kLanes);
    if (missing < Traits::kRows)
      reinterpret_cast<uint4*>(shared)[missing * 2 * kLanes + static_cast<int>(threadIdx.x) % (2 * kLanes)] = uint4{};
  }

  // keeps: k and v go to the cache, too.
  __device__ __forceinline__ void bring(bool keeps) {
    const bool exists = head < place.group + 2;
    const int column = head < place.group ? place.kv_head * place.group + head
                                          : p.heads + place.kv_head + (is_value() ? p.kv_heads : 0);
    const auto* const from = static_cast<const unsigned short*>(p.x) +
                             place.text * (static_cast<long long>(p.heads + 2 * p.kv_heads) * Traits::kHeadDim) +
                             (exists ? column : 0) * Traits::kHeadDim + within;
    const typename V::Words of_a = V::read(from), of_b = V::read(from + kHalf);
    float a[8], b[8];
    V::unpack(of_a, a), V::unpack(of_b, b);
    float squares = 0.f;
#pragma unroll
    for (int i = 0; i < 8; ++i) squares = __fmaf_rn(b[i], b[i], __fmaf_rn(a[i], a[i], squares));
#pragma unroll
    for (int step = kLanes / 2; step; step >>= 1) squares += __shfl_xor_sync(~0u, squares, step);
    if (turns() && p.q_scale != nullptr) {
      const float factor = rsqrtf(__fmaf_rn(squares, 1.f / Traits::kHeadDim, p.epsilon));
#pragma unroll
      for (int i = 0; i < 8; ++i) a[i] = a[i] * factor * scale_a[i], b[i] = b[i] * factor * scale_b[i];
    }
    if (turns() && p.angles != nullptr) turn(a, b, cosine, sine);
    if (!exists) return;
    if (head < place.group) {
      auto* const row = reinterpret_cast<unsigned char*>(shared);
      V::store(reinterpret_cast<unsigned short*>(row + Rows::offset(head, within / 8)), a);
      V::store(reinterpret_cast<unsigned short*>(row + Rows::offset(head, (within + kHalf) / 8)), b);
      return;
    }
    unsigned short* const row = shared + (Traits::kRows + (is_value() ? 1 : 0)) * Traits::kHeadDim;
    V::store(row + within, a), V::store(row + kHalf + within, b);
    if (!keeps) return;
    unsigned short* const kept = static_cast<unsigned short*>(p.cache) +
                                 __ldcg(p.places + place.text) * (2ll * p.kv_heads * Traits::kHeadDim) +
                                 (column - p.heads) * Traits::kHeadDim;
    V::store(kept + within, a), V::store(kept + kHalf + within, b);
  }

  // The token's own key and value, to the group that has them. By a whole warp.
  template <class Groups>
  __device__ __forceinline__ void add_own(const Groups& groups, int group, int at) const {
    const int own = groups.keys.own;
    if (own < 0 || own / Groups::kKeys != group) return;
    const unsigned short* const rows = shared + Traits::kRows * Traits::kHeadDim;
    for (int i = groups.lane; i < 2 * Groups::kRowPieces; i += 32)
      store_piece((i < Groups::kRowPieces ? groups.k(at) : groups.v(at)) +
                      Rows::offset(own % Groups::kKeys, i % Groups::kRowPieces),
                  *reinterpret_cast<const uint4*>(rows + i * 8));
    __syncwarp();
  }
};

}  // namespace stof::cuda
