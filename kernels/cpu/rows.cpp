// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/rows.h"

#include <cmath>

#include "kernels/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/storage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stof::cpu::HWY_NAMESPACE {

using Floats = hn::ScalableTag<float>;

template <class T>
void add_source(const T* HWY_RESTRICT row, int columns, bool first, float* HWY_RESTRICT sum) {
  const Floats d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  int i = 0;
  for (; i + lanes <= columns; i += lanes) {
    const auto x = load_row(d, row + i);
    hn::StoreU(first ? x : hn::Add(hn::LoadU(d, sum + i), x), d, sum + i);
  }
  if (i == columns) return;
  const auto x = load_tail(d, row + i, columns - i);
  store_tail(d, first ? x : hn::Add(load_tail(d, sum + i, columns - i), x), sum + i, columns - i);
}

void add_source(const RowSource& source, int columns, bool first, float* sum) {
  switch (source.type) {
    case RowType::f32: return add_source(static_cast<const float*>(source.row), columns, first, sum);
    case RowType::f16: return add_source(static_cast<const hwy::float16_t*>(source.row), columns, first, sum);
    case RowType::bf16: return add_source(static_cast<const hwy::bfloat16_t*>(source.row), columns, first, sum);
  }
}

// sum of (x - shift)^power over the row, power 1 or 2; in several sums, so that no addition waits for the one before.
template <int kPower>
float moment(const float* HWY_RESTRICT x, int columns, float shift) {
  const Floats d;
  constexpr int kSums = 4;
  const int lanes = static_cast<int>(hn::Lanes(d));
  const auto center = hn::Set(d, shift);
  const auto add = [&](const float* at, auto sum) {
    const auto delta = hn::Sub(hn::LoadU(d, at), center);
    return kPower == 1 ? hn::Add(sum, delta) : hn::MulAdd(delta, delta, sum);
  };
  auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  int i = 0;
  for (; i + kSums * lanes <= columns; i += kSums * lanes) {
    sum0 = add(x + i, sum0);
    sum1 = add(x + i + lanes, sum1);
    sum2 = add(x + i + 2 * lanes, sum2);
    sum3 = add(x + i + 3 * lanes, sum3);
  }
  for (; i + lanes <= columns; i += lanes) sum0 = add(x + i, sum0);
  float total = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
  for (; i < columns; ++i) total += kPower == 1 ? x[i] - shift : (x[i] - shift) * (x[i] - shift);
  return total;
}

// kShift: around the mean and with a shift; else around 0.
template <bool kShift, class T>
void write_normalised(const SumTask& task, float mean, float inverse, T* HWY_RESTRICT out) {
  const Floats d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  const auto center = hn::Set(d, mean), factor = hn::Set(d, inverse);
  const RowNorm& norm = *task.norm;
  const auto apply = [&](int i, const auto& load) {
    const auto x = load(task.scratch + i), scale = load(norm.scale + i);
    if constexpr (kShift) return hn::MulAdd(hn::Mul(hn::Sub(x, center), factor), scale, load(norm.shift + i));
    else return hn::Mul(hn::Mul(x, factor), scale);
  };
  int i = 0;
  for (; i + lanes <= task.columns; i += lanes)
    store_row(d, apply(i, [&](const float* from) { return hn::LoadU(d, from); }), out + i);
  if (const int rest = task.columns - i; rest > 0)
    store_tail(d, apply(i, [&](const float* from) { return load_tail(d, from, rest); }), out + i, rest);
}

template <class T>
void write_row(const SumTask& task, T* HWY_RESTRICT out) {
  const Floats d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  int i = 0;
  for (; i + lanes <= task.columns; i += lanes) store_row(d, hn::LoadU(d, task.scratch + i), out + i);
  if (i < task.columns) store_tail(d, load_tail(d, task.scratch + i, task.columns - i), out + i, task.columns - i);
}

template <class T>
void finish(const SumTask& task) {
  T* out = static_cast<T*>(task.out);
  if (!task.norm) return write_row(task, out);
  const auto columns = static_cast<float>(task.columns);
  const bool shifts = task.norm->shift != nullptr;
  const float mean = shifts ? moment<1>(task.scratch, task.columns, 0.f) / columns : 0.f;
  const float variance = moment<2>(task.scratch, task.columns, mean) / columns;
  const float inverse = 1.f / std::sqrt(variance + task.norm->epsilon);
  return shifts ? write_normalised<true>(task, mean, inverse, out) : write_normalised<false>(task, 0.f, inverse, out);
}

void sum_row(const SumTask& task) {
  for (int s = 0; s < task.count; ++s) add_source(task.sources[s], task.columns, s == 0, task.scratch);
  switch (task.type) {
    case RowType::f32: return finish<float>(task);
    case RowType::f16: return finish<hwy::float16_t>(task);
    case RowType::bf16: return finish<hwy::bfloat16_t>(task);
  }
}

template <class T>
void blend(const BlendTask& task) {
  const Floats d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  const auto weight = hn::Set(d, task.weight), other_weight = hn::Set(d, task.other_weight);
  const auto both = [&](auto mine, auto other) { return hn::MulAdd(mine, weight, hn::Mul(other, other_weight)); };
  T* const row = static_cast<T*>(task.row);
  const T* const other = static_cast<const T*>(task.other);
  int i = 0;
  for (; i + lanes <= task.columns; i += lanes)
    store_row(d, both(load_row(d, row + i), load_row(d, other + i)), row + i);
  if (const int rest = task.columns - i; rest > 0)
    store_tail(d, both(load_tail(d, row + i, rest), load_tail(d, other + i, rest)), row + i, rest);
}

void blend_any(const BlendTask& task) {
  switch (task.type) {
    case RowType::f32: return blend<float>(task);
    case RowType::f16: return blend<hwy::float16_t>(task);
    case RowType::bf16: return blend<hwy::bfloat16_t>(task);
  }
}

}  // namespace stof::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stof::cpu {

HWY_EXPORT(sum_row);
HWY_EXPORT(blend_any);

void sum_rows(const SumTask& task) { HWY_DYNAMIC_DISPATCH(sum_row)(task); }
void blend_row(const BlendTask& task) { HWY_DYNAMIC_DISPATCH(blend_any)(task); }

}  // namespace stof::cpu
#endif
