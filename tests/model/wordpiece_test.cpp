// SPDX-License-Identifier: Apache-2.0
#include "src/model/wordpiece.h"

#include <gtest/gtest.h>

#include <chrono>

namespace stof {
namespace {

using Ids = std::vector<std::int32_t>;

Ids ids_of(const WordPiece& words, std::string_view text) {
  Ids ids;
  words.append_ids(text, ids);
  return ids;
}

TEST(WordPiece, AWordAboveTheMostCharactersIsUnknown) {
  const WordPiece words({{"[UNK]", 0}, {"a", 1}, {"##a", 2}, {"\xc3\xa9", 3}, {"##\xc3\xa9", 4}},
                        {.max_characters = 3});
  EXPECT_EQ(ids_of(words, "aaa aaaa a"), (Ids{1, 2, 2, 0, 1}));
  EXPECT_EQ(ids_of(words, "\xc3\xa9\xc3\xa9\xc3\xa9 \xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"), (Ids{3, 4, 4, 0}));
}

// Each character of the word begins nearly the whole piece.
TEST(WordPiece, ALongWordIsNotMatchedWithLongPieces) {
  const std::string longest(100'000, 'a');
  const WordPiece words({{"[UNK]", 0}, {"a", 1}, {"##a", 2}, {"##" + longest + "b", 3}}, {});
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(ids_of(words, longest + longest), Ids{0});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));  // 100 s where it is matched
}

}  // namespace
}  // namespace stof
