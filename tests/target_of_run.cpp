// SPDX-License-Identifier: Apache-2.0
// STOF_TEST_TARGET=SSE4 or AVX2: a test program runs on the CPU's kernels of that instruction set.
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string_view>

#include "tests/only_target.h"

namespace stof {
namespace {

class TargetOfRun : public testing::Environment {
 public:
  void SetUp() override {
    const char* const name = std::getenv("STOF_TEST_TARGET");
    if (name == nullptr) return;
    const std::int64_t target = std::string_view(name) == "SSE4"   ? HWY_SSE4
                                : std::string_view(name) == "AVX2" ? HWY_AVX2
                                                                   : 0;
    ASSERT_NE(target, 0) << name << "; accepted: SSE4, AVX2";
    if ((hwy::SupportedTargets() & target) == 0) GTEST_SKIP() << "not of this processor";
    only_.emplace(target);
  }
  void TearDown() override { only_.reset(); }

 private:
  std::optional<OnlyTarget> only_;
};
const testing::Environment* const kTargetOfRun = testing::AddGlobalTestEnvironment(new TargetOfRun);

}  // namespace
}  // namespace stof
