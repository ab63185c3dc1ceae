// SPDX-License-Identifier: Apache-2.0
#include "src/model/piece_trie.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>

namespace stof {
namespace {

TEST(PieceTrie, Empty) {
  const PieceTrie trie(std::span<const Piece>{});
  EXPECT_EQ(trie.find(""), std::nullopt);
  EXPECT_EQ(trie.find("a"), std::nullopt);
  EXPECT_EQ(trie.longest(PieceTrie::kRoot, "abc", 0).bytes, 0u);
}

TEST(PieceTrie, TheEmptyPieceIsFoundAndNeverMatched) {
  const std::vector<Piece> pieces = {{"", 7}, {"b", 8}};
  const PieceTrie trie(pieces);
  EXPECT_EQ(trie.find(""), 7);
  EXPECT_EQ(trie.longest(PieceTrie::kRoot, "abc", 0).bytes, 0u);
  EXPECT_EQ(trie.longest(PieceTrie::kRoot, "abc", 1).id, 8);
}

// Against std::map, over few and over many distinct bytes.
TEST(PieceTrie, AgreesWithAMap) {
  std::mt19937 random(5);
  for (const int letters : {2, 5, 256}) {
    const auto text = [&](std::size_t longest) {
      std::string result(random() % (longest + 1), '\0');
      for (char& c : result) c = static_cast<char>(random() % static_cast<unsigned>(letters));
      return result;
    };
    std::map<std::string, std::int32_t> expected;
    for (int i = 0; i < 3000; ++i) expected.emplace(text(6), i);
    std::vector<Piece> pieces;
    for (const auto& [piece, id] : expected) pieces.push_back({piece, id});
    const PieceTrie trie(pieces);
    for (int i = 0; i < 20'000; ++i) {
      const std::string query = text(8);
      const auto found = expected.find(query);
      EXPECT_EQ(trie.find(query), found == expected.end() ? std::nullopt : std::optional(found->second));
      PieceTrie::Match longest;
      for (std::size_t bytes = 1; bytes <= query.size(); ++bytes)
        if (const auto match = expected.find(query.substr(0, bytes)); match != expected.end())
          longest = {.bytes = bytes, .id = match->second};
      EXPECT_EQ(trie.longest(PieceTrie::kRoot, query, 0).bytes, longest.bytes);
      EXPECT_EQ(trie.longest(PieceTrie::kRoot, query, 0).id, longest.id);
    }
  }
}

// 160,000 prefixes, each with a, b and d behind it, leave a hole each, into which nothing of the rest fits.
TEST(PieceTrie, AVocabularyOfHolesIsBuiltInTime) {
  std::vector<Piece> pieces;
  for (char first = '!'; pieces.size() < 480'000; ++first)
    for (char second = '!'; second <= '~'; ++second)
      for (char third = '!'; third <= '~'; ++third)
        for (const char last : {'a', 'b', 'd'})
          pieces.push_back({{first, second, third, last}, static_cast<std::int32_t>(pieces.size())});
  const auto begin = std::chrono::steady_clock::now();
  const PieceTrie trie(pieces);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));  // 0.3 s; 150 s with every hole tried
  for (std::size_t i = 0; i < pieces.size(); i += 1001) EXPECT_EQ(trie.find(pieces[i].text), pieces[i].id);
  EXPECT_EQ(trie.find("!!!c"), std::nullopt);
}

}  // namespace
}  // namespace stof
