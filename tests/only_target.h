// SPDX-License-Identifier: Apache-2.0
// Kernels of the CPU of one instruction set as long as it lives, instead of the best that this processor has.
#pragma once
#include <hwy/targets.h>

#include <cstdint>

namespace stof {

class OnlyTarget {
 public:
  explicit OnlyTarget(std::int64_t target) { hwy::SetSupportedTargetsForTest(target); }
  ~OnlyTarget() { hwy::SetSupportedTargetsForTest(0); }
  OnlyTarget(const OnlyTarget&) = delete;
  OnlyTarget& operator=(const OnlyTarget&) = delete;
};

}  // namespace stof
