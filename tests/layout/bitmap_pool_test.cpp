// SPDX-License-Identifier: Apache-2.0
#include "src/layout/bitmap_pool.h"

#include <gtest/gtest.h>

#include "src/base/hash.h"

namespace stof {
namespace {

constexpr std::size_t kWords = 64;

std::vector<std::uint64_t> bitmap(std::uint64_t seed) {
  std::vector<std::uint64_t> words(kWords);
  for (std::size_t w = 0; w < kWords; ++w) words[w] = splitmix64(seed * kWords + w + 1);
  return words;
}

TEST(BitmapPool, KeepsEachBitmapOnceInTheOrderOfArrival) {
  constexpr std::int32_t kCount = 10000;  // 5 MB, past the first guess, which asks for large pages
  BitmapPool pool(kWords);
  for (std::int32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(pool.intern(bitmap(static_cast<std::uint64_t>(i))), i);
    ASSERT_EQ(pool.intern(bitmap(static_cast<std::uint64_t>(i / 2))), i / 2);
    if (i % 50 == 49) pool.reserve(i / 50 + 1, kCount / 50);
  }
  for (std::int32_t i = 0; i < kCount; i += 7) ASSERT_EQ(pool.intern(bitmap(static_cast<std::uint64_t>(i))), i);
  const std::vector<std::uint64_t> words = pool.take();
  ASSERT_EQ(words.size(), kCount * kWords);
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::vector<std::uint64_t> expected = bitmap(i);
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), words.begin() + static_cast<std::ptrdiff_t>(i * kWords)));
  }
}

TEST(BitmapPool, TellsBitmapsOfOneBitApart) {
  BitmapPool pool(kWords);
  std::vector<std::uint64_t> words(kWords, 0);
  for (std::int32_t bit = 0; bit < 4096; ++bit) {
    words[static_cast<std::size_t>(bit / 64)] = std::uint64_t{1} << (bit % 64);
    ASSERT_EQ(pool.intern(words), bit);
    words[static_cast<std::size_t>(bit / 64)] = 0;
  }
}

}  // namespace
}  // namespace stof
