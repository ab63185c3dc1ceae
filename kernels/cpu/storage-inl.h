// SPDX-License-Identifier: Apache-2.0
// Rows of f32, f16 or bf16 in memory to and from vectors of floats; a row's tail is read and written element-wise safe.
#if defined(STOF_KERNELS_CPU_STORAGE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STOF_KERNELS_CPU_STORAGE_INL_H_
#undef STOF_KERNELS_CPU_STORAGE_INL_H_
#else
#define STOF_KERNELS_CPU_STORAGE_INL_H_
#endif
#include <hwy/highway.h>

#include <cmath>
#include <cstring>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace stof::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> load_row(D d, const float* from) {
  return hn::LoadU(d, from);
}
// The numbers of d in binary16, and back to nearest even. SSE4 has no instruction for it, and what Highway 1.0 does
// there takes infinity and NaN for numbers and cuts off instead of rounding: the same steps as in src/tensor/half.h.
#if HWY_TARGET == HWY_SSE4
template <class D>
HWY_INLINE hn::Vec<D> widen_half(D d, const hwy::float16_t* from) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<std::uint16_t, D> dh;
  const auto bits = hn::PromoteTo(du, hn::LoadU(dh, reinterpret_cast<const std::uint16_t*>(from)));
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFu)), moved = hn::ShiftLeft<13>(magnitude);
  const auto least = hn::Set(du, 0x38800000u);  // 2^-14
  const auto subnormal = hn::BitCast(du, hn::Sub(hn::BitCast(d, hn::Add(moved, least)), hn::BitCast(d, least)));
  const auto normal = hn::Add(moved, hn::Set(du, 0x38000000u));
  const auto compared = hn::BitCast(di, magnitude);
  const auto is_subnormal = hn::RebindMask(du, hn::Lt(compared, hn::Set(di, 0x400)));
  const auto is_special = hn::RebindMask(du, hn::Gt(compared, hn::Set(di, 0x7BFF)));
  const auto finite = hn::IfThenElse(is_subnormal, subnormal, normal);
  const auto result = hn::IfThenElse(is_special, hn::Or(moved, hn::Set(du, 0x7F800000u)), finite);
  return hn::BitCast(d, hn::Or(result, hn::ShiftLeft<16>(hn::Sub(bits, magnitude))));
}
template <class D>
HWY_INLINE void narrow_half(D d, hn::Vec<D> v, hwy::float16_t* to) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(du, v), magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFFu));
  const auto compared = hn::BitCast(di, magnitude);
  const auto above = [&](int bound) { return hn::RebindMask(du, hn::Gt(compared, hn::Set(di, bound))); };
  const auto half = hn::Set(d, 0.5f);
  const auto subnormal = hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(d, magnitude), half)), hn::BitCast(du, half));
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1u));
  const auto rounded = hn::Add(magnitude, hn::Add(odd, hn::Set(du, 0xFFFu)));
  const auto normal = hn::ShiftRight<13>(hn::Sub(rounded, hn::Set(du, 0x38000000u)));
  auto result = hn::IfThenElse(above(0x387FFFFF), normal, subnormal);
  result = hn::IfThenElse(above(0x477FEFFF), hn::Set(du, 0x7C00u), result);  // 65520 and more round to infinity
  result = hn::IfThenElse(above(0x7F800000), hn::Set(du, 0x7E00u), result);
  result = hn::Or(result, hn::ShiftRight<16>(hn::Sub(bits, magnitude)));
  const hn::Rebind<std::uint16_t, D> dh;
  hn::StoreU(hn::TruncateTo(dh, result), dh, reinterpret_cast<std::uint16_t*>(to));
}
#else
template <class D>
HWY_INLINE hn::Vec<D> widen_half(D d, const hwy::float16_t* from) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::float16_t, D>(), from));
}
template <class D>
HWY_INLINE void narrow_half(D, hn::Vec<D> v, hwy::float16_t* to) {
  const hn::Rebind<hwy::float16_t, D> half;
  hn::StoreU(hn::DemoteTo(half, v), half, to);
}
#endif

template <class D>
HWY_INLINE hn::Vec<D> load_row(D d, const hwy::float16_t* from) {
  return widen_half(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> load_row(D d, const hwy::bfloat16_t* from) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::bfloat16_t, D>(), from));
}

template <class D>
HWY_INLINE void store_row(D d, hn::Vec<D> v, float* to) {
  hn::StoreU(v, d, to);
}
template <class D>
HWY_INLINE void store_row(D d, hn::Vec<D> v, hwy::float16_t* to) {
  narrow_half(d, v, to);
}
// Round to nearest even; a NaN stays one because its quiet bit survives.
template <class D>
HWY_INLINE void store_row(D, hn::Vec<D> v, hwy::bfloat16_t* to) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<std::uint16_t, D> dh;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFu)));
  const auto quiet = hn::Or(bits, hn::Set(du, 0x00400000u));
  const auto chosen = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet, rounded);
  hn::StoreU(hn::TruncateTo(dh, hn::ShiftRight<16>(chosen)), dh, reinterpret_cast<std::uint16_t*>(to));
}

// The first `count` < Lanes(d) elements at `from`, then zeros; reads nothing past them.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_tail(D d, const T* from, int count) {
  // AVX2 and AVX-512 load under a mask without touching what it leaves out.
  if constexpr (hn::MaxLanes(D()) >= (sizeof(T) == 4 ? 8 : 16)) {
    using Bits = hwy::UnsignedFromSize<sizeof(T)>;
    const hn::Rebind<Bits, D> db;
    const auto first = hn::FirstN(db, static_cast<std::size_t>(count));
    const auto bits = hn::MaskedLoad(first, db, reinterpret_cast<const Bits*>(from));
    if constexpr (sizeof(T) == 4) return hn::BitCast(d, bits);
    else return hn::PromoteTo(d, hn::BitCast(hn::Rebind<T, D>(), bits));
  }
  HWY_ALIGN T lanes[hn::MaxLanes(D())] = {};
  std::memcpy(lanes, from, sizeof(T) * static_cast<std::size_t>(count));
  return load_row(d, lanes);
}
template <class D, class T>
HWY_INLINE void store_tail(D d, hn::Vec<D> v, T* to, int count) {
  HWY_ALIGN T lanes[hn::MaxLanes(D())];
  store_row(d, v, lanes);
  std::memcpy(to, lanes, sizeof(T) * static_cast<std::size_t>(count));
}

// count elements to floats; the elements up to padded, a multiple of the lanes, become 0.
template <class T>
HWY_INLINE void widen_row(const T* from, int count, float* to, int padded) {
  const hn::ScalableTag<float> d;
  constexpr int kStep = static_cast<int>(hn::MaxLanes(hn::ScalableTag<float>()));
  int c = 0;
  for (; c + kStep <= count; c += kStep) hn::Store(load_row(d, from + c), d, to + c);
  if (c < padded) hn::Store(load_tail(d, from + c, count - c), d, to + c);
}

// to[0 .. count) = factor * from[0 .. count), from readable to whole vectors.
template <class T>
HWY_INLINE void scale_row(const float* from, float factor, int count, T* to) {
  const hn::ScalableTag<float> d;
  constexpr int kStep = static_cast<int>(hn::MaxLanes(hn::ScalableTag<float>()));
  const auto by = hn::Set(d, factor);
  int c = 0;
  for (; c + kStep <= count; c += kStep) store_row(d, hn::Mul(hn::Load(d, from + c), by), to + c);
  if (c < count) store_tail(d, hn::Mul(hn::Load(d, from + c), by), to + c, count - c);
}

// The natural logarithm of a sum of weights 2^(score - top); -inf when there was no key.
inline float natural_log_sum(float top, float sum) {
  if (sum == 0.f) return -std::numeric_limits<float>::infinity();
  return static_cast<float>(double{top} * 0.69314718055994531 + std::log(double{sum}));
}

}  // namespace stof::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
