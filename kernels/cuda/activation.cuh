// SPDX-License-Identifier: Apache-2.0
// Activations of one value, in fp32.
#pragma once
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/storage.cuh"

namespace stof::cuda {

// Phi(x) = (1 + erf(x / sqrt 2)) / 2, for storage of 16 bits: by formula 7.1.26 of Abramowitz and Stegun, good to 1e-7,
// in a third of the instructions of erff.
__device__ __forceinline__ float normal_share(float x) {
  const float z = fabsf(x) * 0.70710678f;
  const float t = __fdividef(1.f, __fmaf_rn(0.3275911f, z, 1.f));
  float sum = __fmaf_rn(1.061405429f, t, -1.453152027f);
  sum = __fmaf_rn(sum, t, 1.421413741f);
  sum = __fmaf_rn(sum, t, -0.284496736f);
  sum = __fmaf_rn(sum, t, 0.254829592f);
  const float tail = 0.5f * sum * t * exp2_approx(z * z * -1.4426950408889634f);  // Phi(-|x|)
  return x < 0.f ? tail : 1.f - tail;                                             // NaN stays NaN
}

// Where gelu and silu are 0, so that -inf times nothing is not NaN. NaN stays NaN.
constexpr float kFarBelow = -200.f;
__device__ __forceinline__ float not_below(float x) { return x < kFarBelow ? kFarBelow : x; }

template <class Storage>
__device__ __forceinline__ float gelu(float x) {
  const float near = not_below(x);
  return near * normal_share(near);
}
template <>
__device__ __forceinline__ float gelu<Single>(float x) {
  const float near = not_below(x);
  return 0.5f * near * (1.f + erff(near * 0.70710678f));
}

__device__ __forceinline__ float tanh_approx(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

constexpr float kMostSquare = 100.f;  // of h, past which p is the same

// x Phi(x) of h = x / 2 in 6 instructions, as h (1 + tanh(h p)): p of h^2 such that tanh(h p) is erf(x / sqrt 2), good
// to 2.6e-5 were tanh exact; the coefficients are those of tools/fit_gelu.py. Past |x| = 10 nothing is taken off p any
// more, so tanh stays at 1. NaN stays NaN. kWide: h^2 may be infinite, as it may with sums that bfloat holds and half
// does not, for one instruction more.
template <bool kWide>
__device__ __forceinline__ float gelu_of_half(float h) {
  const float t = kWide ? fminf(h * h, kMostSquare) : h * h;
  const float q = __saturatef(__fmaf_rn(-0.0112485459f, t, 0.296045201f));
  return __fmaf_rn(h, tanh_approx(h * __fmaf_rn(q, t, 1.59501575f)), h);
}

// x (1 + tanh y) / 2, likewise, in 5: y itself is h p.
__device__ __forceinline__ float gelu_tanh_of_half(float h) {
  const float t = h * h;
  return __fmaf_rn(h, tanh_approx(h * __fmaf_rn(0.285419265f, t, 1.59576912f)), h);
}

// x (1 + tanh y) / 2 = x / (1 + exp(-2 y))
__device__ __forceinline__ float gelu_tanh(float x) {
  const float near = not_below(x);
  const float y = 0.79788456f * __fmaf_rn(0.044715f * near * near, near, near);
  return near / (1.f + exp2f(y * -2.8853900817779268f));
}

// x / (1 + exp(-x)). Epilogues take it by itself: a sum in fp32 of finite operands is finite, and two instructions
// fewer a value are.
__device__ __forceinline__ float silu_of_finite(float x) {
  return __fdividef(x, 1.f + exp2_approx(x * -1.4426950408889634f));
}
__device__ __forceinline__ float silu(float x) { return silu_of_finite(not_below(x)); }

__device__ __forceinline__ float relu(float x) { return x < 0.f ? 0.f : x; }  // NaN stays NaN

}  // namespace stof::cuda
