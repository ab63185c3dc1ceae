// SPDX-License-Identifier: Apache-2.0
#include "src/base/memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace stof {
namespace {

TEST(Memory, IsThatOfTheMachineOrLess) {
  const auto machine =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
  EXPECT_LE(memory_limit(), machine);
  EXPECT_GT(memory_limit(), std::uint64_t{64} << 20);  // this process runs in it
}

}  // namespace
}  // namespace stof
