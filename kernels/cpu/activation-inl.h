// SPDX-License-Identifier: Apache-2.0
// Activations of vectors of floats; NaN stays NaN.
#if defined(STOF_KERNELS_CPU_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STOF_KERNELS_CPU_ACTIVATION_INL_H_
#undef STOF_KERNELS_CPU_ACTIVATION_INL_H_
#else
#define STOF_KERNELS_CPU_ACTIVATION_INL_H_
#endif
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "kernels/cpu/exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stof::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// x Phi(x) = max(x, 0) - |x| Phi(-|x|), the last factor as a power of two: its exponent is nearly a parabola, and where
// that is inexact the product is small. Minimax with degree 7 up to 7, beyond which it is below 1e-11. Absolute error
// below 3.4e-7, relative error below 6e-5 down to -4.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu(D d, V x) {
  const V size = hn::Min(hn::Set(d, 7.f), hn::Abs(x));  // x86 returns the second operand when one is NaN
  V p = hn::Set(d, -1.4291705383584485e-06f);
  p = hn::MulAdd(p, size, hn::Set(d, 5.369718564907089e-05f));
  p = hn::MulAdd(p, size, hn::Set(d, -0.0008729513501748443f));
  p = hn::MulAdd(p, size, hn::Set(d, 0.008312311954796314f));
  p = hn::MulAdd(p, size, hn::Set(d, -0.05364193767309189f));
  p = hn::MulAdd(p, size, hn::Set(d, -0.4586959481239319f));
  p = hn::MulAdd(p, size, hn::Set(d, -1.1511883735656738f));
  p = hn::MulAdd(p, size, hn::Set(d, -1.f));
  return hn::NegMulAdd(size, exp2(d, p), hn::Max(hn::Zero(d), x));
}

// x / (1 + exp(-z)), exp(-z) being at most 2^126
template <class D, class V = hn::Vec<D>>
HWY_INLINE V times_sigmoid(D d, V x, V z) {
  const V power = hn::Min(hn::Set(d, 126.f), hn::Mul(z, hn::Set(d, -1.44269504f)));
  return hn::Div(x, hn::Add(hn::Set(d, 1.f), exp2(d, power)));
}

// Where silu and gelu_tanh are nothing, so that what is far below is not divided by a mere 2^126.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V not_below(D d, V x) {
  return hn::Max(hn::Set(d, -200.f), x);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V silu(D d, V x) {
  const V near = not_below(d, x);
  return times_sigmoid(d, near, near);
}

// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_tanh(D d, V x) {
  const V near = not_below(d, x), square = hn::Mul(near, near);
  const V factor = hn::MulAdd(square, hn::Set(d, 2 * 0.7978845608f * 0.044715f), hn::Set(d, 2 * 0.7978845608f));
  return times_sigmoid(d, near, hn::Mul(near, factor));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V relu(D d, V x) {
  return hn::Max(hn::Zero(d), x);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V tanh(D d, V x) {
  return hn::Tanh(d, x);
}

}  // namespace stof::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
