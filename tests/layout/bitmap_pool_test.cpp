// SPDX-License-Identifier: Apache-2.0
#include "src/layout/bitmap_pool.h"

#include <gtest/gtest.h>

#include "src/base/hash.h"

namespace stof {
namespace {

constexpr std::size_t kWords = 64;

template <class Word = std::uint64_t>
std::vector<Word> bitmap(std::uint64_t seed) {
  std::vector<Word> words(kWords);
  for (std::size_t w = 0; w < kWords; ++w) words[w] = static_cast<Word>(splitmix64(seed * kWords + w + 1));
  return words;
}

enum class Reserves { nothing, by_row_blocks, the_most, too_few };

template <class Word>
class WordPoolOf : public testing::Test {
 protected:
  static constexpr std::int32_t kCount = 10000;  // some MB, past the first guess, which asks for large pages

  static void expect_each_once(Reserves reserves) {
    WordPool<Word> pool(kWords);
    if (reserves == Reserves::the_most) pool.reserve_at_most(kCount);
    if (reserves == Reserves::too_few) pool.reserve_at_most(1000);
    for (std::int32_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(pool.intern(bitmap<Word>(static_cast<std::uint64_t>(i))), i);
      ASSERT_EQ(pool.intern(bitmap<Word>(static_cast<std::uint64_t>(i / 2))), i / 2);
      if (reserves == Reserves::by_row_blocks && i % 50 == 49) pool.reserve(i / 50 + 1, kCount / 50);
    }
    for (std::int32_t i = 0; i < kCount; i += 7) ASSERT_EQ(pool.intern(bitmap<Word>(static_cast<std::uint64_t>(i))), i);
    const std::vector<Word> words = pool.take();
    ASSERT_EQ(words.size(), kCount * kWords);
    for (std::size_t i = 0; i < kCount; ++i) {
      const std::vector<Word> expected = bitmap<Word>(i);
      ASSERT_TRUE(
          std::equal(expected.begin(), expected.end(), words.begin() + static_cast<std::ptrdiff_t>(i * kWords)));
    }
  }
};
using Words = testing::Types<std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(WordPoolOf, Words);

TYPED_TEST(WordPoolOf, KeepsEachBitmapOnceInTheOrderOfArrival) {
  for (const Reserves reserves : {Reserves::nothing, Reserves::by_row_blocks, Reserves::the_most, Reserves::too_few})
    this->expect_each_once(reserves);
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
