// SPDX-License-Identifier: Apache-2.0
#include "src/attention/other_plans.h"

#include <gtest/gtest.h>

namespace stof {
namespace {

OtherPlans::Plan some_plan() { return std::make_shared<const Planned>(); }

// All of the plans that one pair of lengths needs stay, however full the room of what runs have made is before or
// after.
TEST(OtherPlans, WhatIsPreparedStaysWhole) {
  OtherPlans plans;
  const OtherPlans::Plan plain = some_plan(), in_place = some_plan(), of_run = some_plan();
  const auto fill = [&](std::int64_t first) {
    for (std::int64_t i = 0; i < std::int64_t{OtherPlans::kMost}; ++i) plans.add({first + i, first + i}, plain, of_run);
  };
  fill(1000);
  const OtherPlans::Lengths prepared{5, 7};
  plans.keep(prepared);
  const OtherPlans::Plan first = some_plan(), second = some_plan();
  plans.add(prepared, plain, first);
  plans.add(prepared, in_place, second);
  EXPECT_EQ(plans.find({1000, 1000}, plain), of_run);  // it takes no room of theirs
  fill(2000);
  EXPECT_EQ(plans.find({1000, 1000}, plain), nullptr);
  EXPECT_EQ(plans.find(prepared, plain), first);
  EXPECT_EQ(plans.find(prepared, in_place), second);
  EXPECT_EQ(plans.find({5, 8}, plain), nullptr);
}

}  // namespace
}  // namespace stof
