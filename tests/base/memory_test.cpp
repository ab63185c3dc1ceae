// SPDX-License-Identifier: Apache-2.0
#include "src/base/memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/expect_error.h"

namespace stof {
namespace {

TEST(Memory, IsThatOfTheMachineOrLess) {
  const auto machine =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
  EXPECT_LE(memory_limit(), machine);
  EXPECT_GT(memory_limit(), std::uint64_t{64} << 20);  // this process runs in it
}

TEST(Memory, WhatDoesNotFitIsRefusedByName) {
  const auto most = static_cast<double>(memory_limit());
  check_memory("this", most);
  EXPECT_ERROR(check_memory("that", 1e30), ErrorKind::device,
               fmt::format("that: 1e+30 bytes; accepted: at most {}, the memory of this machine", memory_limit()));
}

}  // namespace
}  // namespace stof
