// SPDX-License-Identifier: Apache-2.0
// The two register-tiled products of block-wise attention, over one panel of query rows. A panel is kPanel query rows
// side by side in the lanes of kVectors vectors, so that maxima and sums over keys need no shuffles.
//   scores  s[key][row] = sum_c k[key][c] * q[c][row]        kRows keys at a time
//   values  o[row][c]  += sum_key p[key][row] * v[key][c]    kRows rows at a time
// What is summed over comes in words of 32 bits, a float or two bf16: c and c + 1, or a key and the next.
#if defined(STOF_KERNELS_CPU_TILE_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STOF_KERNELS_CPU_TILE_MATMUL_INL_H_
#undef STOF_KERNELS_CPU_TILE_MATMUL_INL_H_
#else
#define STOF_KERNELS_CPU_TILE_MATMUL_INL_H_
#endif
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

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

struct FloatWords {
  static constexpr int kEach = 1;        // numbers in a word
  static constexpr bool kTiles = false;  // whether matrix registers multiply (kernels/cpu/matrix_tiles-inl.h)
  static HWY_INLINE FloatVec multiply_add(FloatVec a, FloatVec b, FloatVec sum) { return hn::MulAdd(a, b, sum); }
};

// Of bf16, for processors with AVX512_BF16, which Highway 1.0 has no target for. Twice the products of FloatWords in
// the time.
#if HWY_TARGET == HWY_AVX3
struct PairWords {
  static constexpr int kEach = 2;
  static constexpr bool kTiles = false;
  static HWY_INLINE FloatVec multiply_add(FloatVec a, FloatVec b, FloatVec sum) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
    return sum;
  }
  // Lane i of the result has the i-th of both, rounded to nearest even.
  static HWY_INLINE FloatVec joined(FloatVec low, FloatVec high) {
    __m512i side_by_side;
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(side_by_side) : "v"(high.raw), "v"(low.raw));
    const __m512i interleaved = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7,
                                                 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return FloatVec{_mm512_castsi512_ps(_mm512_permutexvar_epi16(interleaved, side_by_side))};
  }
};
#endif

// Word `index` from `base` on, in every lane; storage of 16-bit numbers has no more than their alignment.
HWY_INLINE FloatVec word_at(const std::byte* base, int index) {
  float word;
  std::memcpy(&word, base + std::ptrdiff_t{index} * 4, sizeof(word));
  return hn::Set(Floats(), word);
}

struct Accumulators {
  FloatVec at[kRows][kVectors];
};

// k holds the kRows key rows of `words` words, of which several may be the same one; q is [words][kPanel].
template <class Words>
HWY_INLINE void score_tile(const std::byte* const* k, const float* HWY_RESTRICT q, int words, Accumulators& acc) {
  const Floats d;
  FloatVec sum[kRows][kVectors];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = hn::Zero(d);
  for (int c = 0; c < words; ++c) {
    const FloatVec q0 = hn::Load(d, q + c * kPanel);
    const FloatVec q1 = hn::Load(d, q + c * kPanel + kLanes);
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const FloatVec key = word_at(k[r], c);
      sum[r][0] = Words::multiply_add(key, q0, sum[r][0]);
      sum[r][1] = Words::multiply_add(key, q1, sum[r][1]);
    }
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    acc.at[r][0] = sum[r][0];
    acc.at[r][1] = sum[r][1];
  }
}

struct ValueTile {
  const float* p;  // [words][kPanel], at the first of kRows rows
  const float* v;
  std::int64_t v_stride;
  int words;  // of keys
  float* o;
  std::int64_t o_stride;
  const float* factor;  // kRows factors for what is in o already, or null for 1
};

// kColumns vectors of the output; v and o are at the first.
template <class Words, int kColumns>
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
  for (int j = 0; j < t.words; ++j, p += kPanel, v += t.v_stride) {
    FloatVec value[kColumns];
    HWY_UNROLL(4)
    for (int c = 0; c < kColumns; ++c) value[c] = hn::LoadU(d, v + c * kLanes);
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const FloatVec weight = hn::Set(d, p[r]);
      HWY_UNROLL(4)
      for (int c = 0; c < kColumns; ++c) sum[r][c] = Words::multiply_add(weight, value[c], sum[r][c]);
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
