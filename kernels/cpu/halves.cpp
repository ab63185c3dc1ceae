// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/halves.h"

#include <cmath>
#include <cstring>

#include "kernels/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/halves.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/activation-inl.h"
#include "kernels/cpu/storage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stof::cpu::HWY_NAMESPACE {

using Floats = hn::ScalableTag<float>;
using FloatVec = hn::Vec<Floats>;

// Calls body(first, count) for whole vectors, then for what is left.
template <class Body>
HWY_INLINE void for_each_vector(int columns, const Body& body) {
  const int lanes = static_cast<int>(hn::Lanes(Floats()));
  int i = 0;
  for (; i + lanes <= columns; i += lanes) body(i, lanes);
  if (i < columns) body(i, columns - i);
}

template <class T>
HWY_INLINE FloatVec load(const T* from, int count) {
  const Floats d;
  return count == static_cast<int>(hn::Lanes(d)) ? load_row(d, from) : load_tail(d, from, count);
}
template <class T>
HWY_INLINE void store(FloatVec v, T* to, int count) {
  const Floats d;
  if (count == static_cast<int>(hn::Lanes(d))) store_row(d, v, to);
  else store_tail(d, v, to, count);
}

// 1 / the root mean square of a head.
template <class T>
HWY_INLINE float inverse_size(const T* x, int head_dim, float epsilon) {
  const Floats d;
  FloatVec sum = hn::Zero(d);
  for_each_vector(head_dim, [&](int i, int count) {
    const FloatVec values = load(x + i, count);  // 0 past its end
    sum = hn::MulAdd(values, values, sum);
  });
  return 1.f / std::sqrt(hn::GetLane(hn::SumOfLanes(d, sum)) / static_cast<float>(head_dim) + epsilon);
}

// kNorm: heads are normalised first.
template <bool kNorm, class T>
void rotate(const RotateTask& task) {
  const Floats d;
  const int half = task.head_dim / 2;
  const T* x = static_cast<const T*>(task.x);
  T* out = static_cast<T*>(task.out);
  T* const kept = static_cast<T*>(task.kept);
  for (int head = 0; head < task.heads; ++head, x += task.head_dim, out += task.head_dim) {
    if (kept != nullptr && head == task.first_kept) out = kept;
    [[maybe_unused]] const float* const scale = head < task.q_heads ? task.q_scale : task.k_scale;
    const FloatVec factor = hn::Set(d, kNorm ? inverse_size(x, task.head_dim, task.epsilon) : 1.f);
    const auto value = [&](int i, int count) {
      const FloatVec stored = load(x + i, count);
      if constexpr (kNorm) return hn::Mul(hn::Mul(stored, factor), load(scale + i, count));
      else return stored;
    };
    for_each_vector(half, [&](int i, int count) {
      const FloatVec a = value(i, count), b = value(half + i, count);
      const FloatVec cosine = load(task.angles + i, count), sine = load(task.angles + half + i, count);
      store(hn::NegMulAdd(b, sine, hn::Mul(a, cosine)), out + i, count);
      store(hn::MulAdd(a, sine, hn::Mul(b, cosine)), out + half + i, count);
    });
  }
  if (kept != nullptr && task.first_kept == task.heads) out = kept;
  if (out != x) std::memcpy(out, x, sizeof(T) * static_cast<std::size_t>(task.rest));
}

template <class T>
void rotate(const RotateTask& task) {
  return task.q_scale != nullptr ? rotate<true, T>(task) : rotate<false, T>(task);
}

template <class T, class Activate>
HWY_INLINE void gate(const GateTask& task, const Activate& activate) {
  const T* const x = static_cast<const T*>(task.x);
  T* const out = static_cast<T*>(task.out);
  for_each_vector(task.columns, [&](int i, int count) {
    store(hn::Mul(activate(load(x + i, count)), load(x + task.columns + i, count)), out + i, count);
  });
}

template <class T>
void gate(const GateTask& task) {
  const Floats d;
  switch (task.activation) {
    case LinearActivation::none: return gate<T>(task, [](FloatVec x) { return x; });
    case LinearActivation::gelu: return gate<T>(task, [&](FloatVec x) { return gelu(d, x); });
    case LinearActivation::gelu_tanh: return gate<T>(task, [&](FloatVec x) { return gelu_tanh(d, x); });
    case LinearActivation::silu: return gate<T>(task, [&](FloatVec x) { return silu(d, x); });
    case LinearActivation::relu: return gate<T>(task, [&](FloatVec x) { return relu(d, x); });
    case LinearActivation::tanh: return gate<T>(task, [&](FloatVec x) { return tanh(d, x); });
  }
}

void rotate_any(const RotateTask& task) {
  switch (task.type) {
    case RowType::f32: return rotate<float>(task);
    case RowType::f16: return rotate<hwy::float16_t>(task);
    case RowType::bf16: return rotate<hwy::bfloat16_t>(task);
  }
}

void gate_any(const GateTask& task) {
  switch (task.type) {
    case RowType::f32: return gate<float>(task);
    case RowType::f16: return gate<hwy::float16_t>(task);
    case RowType::bf16: return gate<hwy::bfloat16_t>(task);
  }
}

}  // namespace stof::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stof::cpu {

HWY_EXPORT(rotate_any);
HWY_EXPORT(gate_any);

void rotate_row(const RotateTask& task) { HWY_DYNAMIC_DISPATCH(rotate_any)(task); }
void gate_row(const GateTask& task) { HWY_DYNAMIC_DISPATCH(gate_any)(task); }

}  // namespace stof::cpu
#endif
