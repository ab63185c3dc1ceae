// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/add_results.h"

#include "kernels/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/add_results.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/storage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stof::cpu::HWY_NAMESPACE {

template <class T>
void add_result(const AddResultsTask& task) {
  const hn::ScalableTag<float> d;
  const auto weight = hn::Set(d, task.weight), other_weight = hn::Set(d, task.other_weight);
  const auto both = [&](auto mine, auto other) { return hn::MulAdd(mine, weight, hn::Mul(other, other_weight)); };
  T* const out = static_cast<T*>(task.out);
  const T* const other = static_cast<const T*>(task.other);
  const int lanes = static_cast<int>(hn::Lanes(d));
  int i = 0;
  for (; i + lanes <= task.columns; i += lanes)
    store_row(d, both(load_row(d, out + i), load_row(d, other + i)), out + i);
  if (const int left = task.columns - i; left > 0)
    store_tail(d, both(load_tail(d, out + i, left), load_tail(d, other + i, left)), out + i, left);
}

void add_result_any(const AddResultsTask& task) {
  switch (task.type) {
    case RowType::f32: return add_result<float>(task);
    case RowType::f16: return add_result<hwy::float16_t>(task);
    case RowType::bf16: return add_result<hwy::bfloat16_t>(task);
  }
}

}  // namespace stof::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stof::cpu {

HWY_EXPORT(add_result_any);

void add_result_row(const AddResultsTask& task) { HWY_DYNAMIC_DISPATCH(add_result_any)(task); }

}  // namespace stof::cpu
#endif
