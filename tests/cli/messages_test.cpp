// SPDX-License-Identifier: Apache-2.0
#include "cli/messages.h"

#include <gtest/gtest.h>

#include "cli/table.h"

namespace stof::cli {
namespace {

TEST(Messages, ControlCharactersAreShown) {
  testing::internal::CaptureStderr();
  say("stof: '\x1B[31m'\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "stof: '\\x1B[31m'\n");
}

TEST(Table, ControlCharactersAreShownAndCounted) {
  Table table({"name", "us"});
  table.add({"a\x1B", "1"});
  EXPECT_EQ(table.text(), "  name   us\n  a\\x1B   1\n");
}

}  // namespace
}  // namespace stof::cli
