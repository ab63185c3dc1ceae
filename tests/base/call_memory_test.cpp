// SPDX-License-Identifier: Apache-2.0
#include "src/base/call_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "src/base/pool.h"

namespace stof {
namespace {

// What a call with two lists does: their first addresses.
std::pair<const void*, const void*> make_lists(CallMemory& memory, std::size_t count) {
  memory.reset();
  std::pmr::vector<char> small(3, 'x', &memory);
  std::pmr::vector<std::int64_t> list(count, &memory);
  std::iota(list.begin(), list.end(), 0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(list.data()) % alignof(std::int64_t), 0U);
  EXPECT_EQ(list.back(), static_cast<std::int64_t>(count) - 1);
  EXPECT_EQ(std::string(small.begin(), small.end()), "xxx");
  return {small.data(), list.data()};
}

TEST(CallMemory, CallsLikeEarlierOnesGetTheSamePlaces) {
  CallMemory memory;
  make_lists(memory, 100);  // before it has a block
  const auto first = make_lists(memory, 100);
  EXPECT_EQ(make_lists(memory, 100), first);
  EXPECT_EQ(make_lists(memory, 50).first, first.first);
  make_lists(memory, 100'000);  // more than fits
  const auto larger = make_lists(memory, 100'000);
  EXPECT_EQ(make_lists(memory, 100'000), larger);
}

TEST(Pool, ObjectsAreUsedAgainWhenTheyAreFree) {
  Pool<std::vector<int>> pool;
  const std::vector<int>* first = nullptr;
  {
    const Pool<std::vector<int>>::Lease one(pool), other(pool);
    EXPECT_NE(&*one, &*other);
    (*one).push_back(7);
    first = &*one;
  }
  const Pool<std::vector<int>>::Lease again(pool);
  EXPECT_EQ(&*again, first);
  EXPECT_EQ(*again, std::vector<int>{7});
}

}  // namespace
}  // namespace stof
