// SPDX-License-Identifier: Apache-2.0
#include "cli/size_text.h"

#include <gtest/gtest.h>

namespace stof::cli {
namespace {

TEST(SizeText, IsInAUnitThatFits) {
  EXPECT_EQ(size_text(0), "0 bytes");
  EXPECT_EQ(size_text(1023), "1023 bytes");
  EXPECT_EQ(size_text(1536), "1.5 KiB");
  EXPECT_EQ(size_text(3 << 20), "3.0 MiB");
  EXPECT_EQ(size_text(4.5 * (1 << 30)), "4.5 GiB");
  EXPECT_EQ(size_text(1e15), "931322.6 GiB");
}

}  // namespace
}  // namespace stof::cli
