// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/linear.h"

#include "kernels/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/linear-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stof::cpu::HWY_NAMESPACE {

void multiply_panels_of(const LinearNumbers& numbers, const LinearTask& task, float* scratch) {
  if (numbers.type == LinearType::f32) return LinearRun<Floats32>(numbers, task, scratch).run();
#if HWY_TARGET == HWY_AVX3
  if (numbers.pairs) return LinearRun<PairedBf16>(numbers, task, scratch).run();
#endif
  LinearRun<WidenedBf16>(numbers, task, scratch).run();
}

LinearTiling tiling() { return {.panel = kPanel, .rows = kTileRows}; }

}  // namespace stof::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stof::cpu {

HWY_EXPORT(tiling);
HWY_EXPORT(multiply_panels_of);

LinearTiling linear_tiling() { return HWY_DYNAMIC_DISPATCH(tiling)(); }

std::size_t linear_scratch(const LinearNumbers& numbers, int panels) {
  constexpr std::size_t kWidest = 32, kRowFloats = kLinearSlice + 16;  // of any instruction set
  const std::size_t waiting = linear_words(numbers) > kLinearSlice ? static_cast<std::size_t>(panels) : 1;
  return sizeof(float) * kLinearRows * (kRowFloats + waiting * kWidest);
}

void multiply_panels(const LinearNumbers& numbers, const LinearTask& task, void* scratch) {
  HWY_DYNAMIC_DISPATCH(multiply_panels_of)(numbers, task, static_cast<float*>(scratch));
}

}  // namespace stof::cpu
#endif
