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

template <class Storage>
__device__ __forceinline__ float gelu(float x) {
  return x * normal_share(x);
}
template <>
__device__ __forceinline__ float gelu<Single>(float x) {
  return 0.5f * x * (1.f + erff(x * 0.70710678f));
}

// x Phi(x) in 12 instructions, none of them of the special function unit, good to 4e-5: less than half of what rounding
// the result to f16 may cost. Phi(x) - 1/2 is x times a polynomial of x^2 up to |x| = 4.4, minimax for the error of the
// result; from there on it is past 1/2 and saturates.
__device__ __forceinline__ float gelu_by_polynomial(float x) {
  const float t = fminf(x * x, 19.36f);
  float q = __fmaf_rn(3.57195523e-11f, t, -3.75608655e-09f);
  q = __fmaf_rn(q, t, 1.74152703e-07f);
  q = __fmaf_rn(q, t, -4.72608008e-06f);
  q = __fmaf_rn(q, t, 8.43054659e-05f);
  q = __fmaf_rn(q, t, -0.00105506636f);
  q = __fmaf_rn(q, t, 0.00964326784f);
  q = __fmaf_rn(q, t, -0.0660768002f);
  q = __fmaf_rn(q, t, 0.398761809f);
  return x * __saturatef(__fmaf_rn(x, q, 0.5f));  // NaN saturates to 0 and stays NaN
}

// The same for x (1 + tanh y) / 2, good to 3e-5; up to |x| = 4.2.
__device__ __forceinline__ float gelu_tanh_by_polynomial(float x) {
  const float t = fminf(x * x, 17.64f);
  float q = __fmaf_rn(5.85344551e-11f, t, -5.60995561e-09f);
  q = __fmaf_rn(q, t, 2.37425979e-07f);
  q = __fmaf_rn(q, t, -5.90236323e-06f);
  q = __fmaf_rn(q, t, 9.71792615e-05f);
  q = __fmaf_rn(q, t, -0.00113799807f);
  q = __fmaf_rn(q, t, 0.00993288495f);
  q = __fmaf_rn(q, t, -0.066493243f);
  q = __fmaf_rn(q, t, 0.398807228f);
  return x * __saturatef(__fmaf_rn(x, q, 0.5f));
}

// x (1 + tanh y) / 2 = x / (1 + exp(-2 y))
__device__ __forceinline__ float gelu_tanh(float x) {
  const float y = 0.79788456f * __fmaf_rn(0.044715f * x * x, x, x);
  return x / (1.f + exp2f(y * -2.8853900817779268f));
}

// x / (1 + exp(-x))
__device__ __forceinline__ float silu(float x) { return __fdividef(x, 1.f + exp2_approx(x * -1.4426950408889634f)); }

__device__ __forceinline__ float relu(float x) { return x < 0.f ? 0.f : x; }  // NaN stays NaN

}  // namespace stof::cuda
