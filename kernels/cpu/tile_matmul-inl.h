// SPDX-License-Identifier: Apache-2.0
// The two register-tiled products of block-wise attention, over one panel of query rows. A panel is kPanel query rows
// side by side in the lanes of kVectors vectors, so that maxima and sums over keys need no shuffles.
//   scores  s[key][row] = sum_c k[key][c] * q[c][row]        kRows keys at a time
//   values  o[row][c]  += sum_key p[key][row] * v[key][c]    kRows rows at a time
#if defined(STOF_KERNELS_CPU_TILE_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STOF_KERNELS_CPU_TILE_MATMUL_INL_H_
#undef STOF_KERNELS_CPU_TILE_MATMUL_INL_H_
#else
#define STOF_KERNELS_CPU_TILE_MATMUL_INL_H_
#endif
#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace stof::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using FloatVec = hn::Vec<Floats>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Floats()));
constexpr int kVectors = 2;
constexpr int kPanel = kVectors * kLanes;
// Accumulators: kRows * kVectors of the 32 (AVX-512) or 16 registers.
constexpr int kRows = kLanes == 16 ? 8 : 4;

struct Accumulators {
  FloatVec at[kRows][kVectors];
};

// k holds the kRows key rows, of which several may be the same one; q is [depth][kPanel].
HWY_INLINE void score_tile(const float* const* k, const float* HWY_RESTRICT q, int depth, Accumulators& acc) {
  const Floats d;
  FloatVec sum[kRows][kVectors];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = hn::Zero(d);
  for (int c = 0; c < depth; ++c) {
    const FloatVec q0 = hn::Load(d, q + c * kPanel);
    const FloatVec q1 = hn::Load(d, q + c * kPanel + kLanes);
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const FloatVec key = hn::Set(d, k[r][c]);
      sum[r][0] = hn::MulAdd(key, q0, sum[r][0]);
      sum[r][1] = hn::MulAdd(key, q1, sum[r][1]);
    }
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    acc.at[r][0] = sum[r][0];
    acc.at[r][1] = sum[r][1];
  }
}

struct ValueTile {
  const float* p;  // [keys][kPanel], at the first of kRows rows
  const float* v;
  std::int64_t v_stride;
  int keys;
  float* o;
  std::int64_t o_stride;
  const float* factor;  // kRows factors for what is in o already, or null for 1
};

// kColumns vectors of the output; v and o are at the first.
template <int kColumns>
HWY_INLINE void value_tile(const ValueTile& t) {
  const Floats d;
  FloatVec sum[kRows][kColumns];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (int c = 0; c < kColumns; ++c) sum[r][c] = hn::Load(d, t.o + r * t.o_stride + c * kLanes);
  }
  if (t.factor != nullptr) {
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      HWY_UNROLL(4)
      for (int c = 0; c < kColumns; ++c) sum[r][c] = hn::Mul(sum[r][c], hn::Set(d, t.factor[r]));
    }
  }
  const float* HWY_RESTRICT p = t.p;
  const float* HWY_RESTRICT v = t.v;
  for (int j = 0; j < t.keys; ++j, p += kPanel, v += t.v_stride) {
    FloatVec value[kColumns];
    HWY_UNROLL(4)
    for (int c = 0; c < kColumns; ++c) value[c] = hn::LoadU(d, v + c * kLanes);
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const FloatVec weight = hn::Set(d, p[r]);
      HWY_UNROLL(4)
      for (int c = 0; c < kColumns; ++c) sum[r][c] = hn::MulAdd(weight, value[c], sum[r][c]);
    }
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (int c = 0; c < kColumns; ++c) hn::Store(sum[r][c], d, t.o + r * t.o_stride + c * kLanes);
  }
}

}  // namespace stof::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
