// SPDX-License-Identifier: Apache-2.0
// Every term against its definition, written down once more without anything of src/mask.
#include <cstdlib>

#include "tests/mask/naive.h"

namespace stof {
namespace {

using Index = std::int64_t;

Index floor_mod(Index a, Index b) { return ((a % b) + b) % b; }
Index block(Index x, Index size) { return (x - floor_mod(x, size)) / size; }

TEST(Terms, AllNoneCausal) {
  expect_definition_everywhere(parse("all"), [](auto...) { return true; });
  expect_definition_everywhere(parse("none"), [](auto...) { return false; });
  expect_definition_everywhere(parse("causal"), [](Index, Index, Index p, Index j) { return j <= p; });
}

TEST(Terms, Window) {
  expect_definition_everywhere(parse("window(3)"), [](Index, Index, Index p, Index j) { return std::abs(j - p) <= 3; });
  expect_definition_everywhere(parse("window(5,0)"),
                               [](Index, Index, Index p, Index j) { return -5 <= j - p && j - p <= 0; });
  expect_definition_everywhere(parse("window(0)"), [](Index, Index, Index p, Index j) { return p == j; });
}

TEST(Terms, DilatedAndStrided) {
  for (const auto& [n, d] : {std::pair<Index, Index>{3, 4}, {0, 5}, {2, 1}, {100, 7}})
    expect_definition_everywhere(dilated(n, d), [n = n, d = d](Index, Index, Index p, Index j) {
      return std::abs(p - j) <= n * d && floor_mod(p - j, d) == 0;
    });
  for (const Index s : {1, 2, 7, 64, 1000})
    expect_definition_everywhere(strided(s), [s](Index, Index, Index p, Index j) { return floor_mod(p - j, s) == 0; });
}

TEST(Terms, GlobalSinkPrefix) {
  expect_definition_everywhere(parse("global(4)"),
                               [](Index, Index, Index p, Index j) { return (0 <= p && p < 4) || j < 4; });
  const auto listed = [](Index x) { return x == 0 || x == 1 || x == 9 || x == 30 || x == 31 || x == 69; };
  expect_definition_everywhere(parse("global([9,1,0,30,31,69,30])"),
                               [=](Index, Index, Index p, Index j) { return listed(p) || listed(j); });
  expect_definition_everywhere(parse("sink(5)"), [](Index, Index, Index, Index j) { return j < 5; });
  expect_definition_everywhere(parse("prefix(6)"), [](Index, Index, Index p, Index j) { return j < 6 || j <= p; });
}

TEST(Terms, Documents) {
  const auto document = [](Index x) { return x < 0 ? -1 : x < 3 ? 0 : x < 17 ? 1 : x < 32 ? 2 : 3; };
  expect_definition_everywhere(parse("documents([0,3,17,32])"),
                               [=](Index, Index, Index p, Index j) { return document(p) == document(j); });
}

TEST(Terms, Segments) {
  expect_definition_everywhere(
      parse("segments([[0,10,5,20,\"full\"],[8,30,0,12,\"causal\"],[30,70,20,70,\"causal\"]])"),
      [](Index, Index, Index p, Index j) {
        return (0 <= p && p < 10 && 5 <= j && j < 20) || (8 <= p && p < 30 && j < 12 && j - 12 <= p - 30) ||
               (30 <= p && p < 70 && 20 <= j && j < 70 && j - 70 <= p - 70);
      });
}

std::uint64_t draw(Index i, Index j, std::uint64_t seed) {
  std::uint64_t x = seed + 0x9E3779B97F4A7C15ull *
                               (static_cast<std::uint64_t>(i) * 4294967296ull + static_cast<std::uint64_t>(j) + 1);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// Fewer than `count` column blocks come before block c.
bool drawn(Index r, Index c, Index blocks, Index count, std::uint64_t seed) {
  Index before = 0;
  for (Index other = 0; other < blocks; ++other)
    before += std::pair(draw(r, other, seed), other) < std::pair(draw(r, c, seed), c) ? 1 : 0;
  return before < count;
}

TEST(Terms, RandomBlocks) {
  // The first numbers of splitmix64 from seed 0, as its author's program prints them.
  EXPECT_EQ(draw(0, 0, 0), 0xE220A8397B1DCDAFull);
  EXPECT_EQ(draw(0, 1, 0), 0x6E789E6AA1B965F4ull);
  EXPECT_EQ(draw(0, 2, 0), 0x06C45D188009454Full);
  for (const Index count : {0, 1, 3, 100})
    for (const MaskExtent& extent : {MaskExtent{7, 40}, MaskExtent{70, 70}, MaskExtent{50, 33}})
      expect_definition(random_blocks(8, count, 42), extent, [&](Index, Index, Index p, Index j) {
        return drawn(block(p, 8), block(j, 8), (extent.keys + 7) / 8, count, 42);
      });
}

TEST(Terms, BigBird) {
  for (const MaskExtent& extent : {MaskExtent{7, 40}, MaskExtent{70, 70}, MaskExtent{50, 33}})
    expect_definition(bigbird(4, 3, 3, 2, 7), extent, [&](Index, Index, Index p, Index j) {
      const Index r = block(p, 4), c = block(j, 4), blocks = (extent.keys + 3) / 4;
      const auto global = [&](Index x) { return (0 <= x && x < 2) || x >= blocks - 1; };
      return std::abs(r - c) <= 1 || global(r) || global(c) || drawn(r, c, blocks, 2, 7);
    });
}

TEST(Terms, LongformerIsItsParts) { EXPECT_EQ(parse("longformer(5,2)"), window(5) | global_tokens(2)); }

TEST(Terms, Selection) {
  const auto definition = [](Index b, Index h, Index p, Index j) {
    return (h <= 1 ? j <= p : h == 2 ? j < 4 : true) && (b != 1 || p == j);
  };
  const Mask mask = parse("heads(0-1: causal, 2: sink(4), *: all) & batch(1: window(0), *: all)");
  expect_definition(mask, {.queries = 20, .keys = 20, .batch = 3, .heads = 5}, definition);
  EXPECT_EQ(BoundMask(mask, {20, 20, 3, 5}).groups(), 6);
}

}  // namespace
}  // namespace stof
