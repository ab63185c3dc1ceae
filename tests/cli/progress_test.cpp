// SPDX-License-Identifier: Apache-2.0
// Where stderr is no terminal lines stay: few of them, and not only at the end.
#include "cli/progress.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace stof::cli {
namespace {

std::string told(std::chrono::steady_clock::duration between_lines) {
  testing::internal::CaptureStderr();
  {
    Progress progress("measuring", 4, between_lines);
    for (int i = 0; i < 4; ++i) progress.advance(1);
  }
  return testing::internal::GetCapturedStderr();
}

TEST(Progress, SaysHowFarItIsEveryNowAndThen) {
  const std::string lines = told(std::chrono::seconds(0));
  EXPECT_TRUE(lines.starts_with("measuring [##########                              ] 1/4  0.0 s\n")) << lines;
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 4) << lines;  // the end is said once
}

TEST(Progress, SaysThatAStepIsNotOverYet) {
  testing::internal::CaptureStderr();
  {
    Progress progress("measuring", 4, std::chrono::milliseconds(50));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(lines.starts_with("measuring [                                        ] 0/4  0.")) << lines;
  EXPECT_GE(std::count(lines.begin(), lines.end(), '\n'), 3) << lines;
}

TEST(Progress, SaysNothingOfWhatIsShort) { EXPECT_EQ(told(std::chrono::hours(1)), ""); }

}  // namespace
}  // namespace stof::cli
