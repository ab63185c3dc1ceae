// SPDX-License-Identifier: Apache-2.0
// Where stderr is no terminal a line says what takes long; nothing is said of what does not.
#include "cli/waiting.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace stof::cli {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

TEST(Waiting, SaysNothingOfWhatIsShort) {
  testing::internal::CaptureStderr();
  {
    Waiting waiting("planning", hours(1));
    waiting.next("packing");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Waiting, SaysWhatIsDoneAndWhatComesNext) {
  testing::internal::CaptureStderr();
  {
    Waiting waiting("planning", milliseconds(1), hours(1));
    std::this_thread::sleep_for(milliseconds(300));
    waiting.next("packing");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "planning  0 s\npacking  0 s\n");
}

}  // namespace
}  // namespace stof::cli
