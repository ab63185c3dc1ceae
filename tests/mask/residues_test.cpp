// SPDX-License-Identifier: Apache-2.0
// A mask and its view by residue class allow the same pairs, class by class.
#include "src/mask/residues.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "src/mask/bind.h"
#include "tests/mask/random_mask.h"

namespace stof {
namespace {

constexpr std::int64_t kKeys = 96;

void expect_same_pairs(const Mask& mask, const ResidueView& view) {
  const std::int64_t n = view.residues, keys = kKeys / n * n;
  const BoundMask whole(mask, {.queries = keys, .keys = keys, .heads = 2});
  const BoundMask of_class(view.of_class, {.queries = keys / n, .keys = keys / n, .heads = 2});
  for (const std::int64_t head : {0, 1})
    for (std::int64_t row = 0; row < keys; ++row)
      for (std::int64_t key = 0; key < keys; ++key) {
        const bool one_class = row % n == key % n;
        const bool expected = one_class && of_class.allows(of_class.group_of(0, head), row / n, key / n);
        ASSERT_EQ(whole.allows(whole.group_of(0, head), row, key), expected)
            << mask.text() << " modulo " << n << ": row " << row << ", key " << key << ", head " << head;
      }
}

TEST(ResidueView, IsTheMaskOfEveryClass) {
  const struct {
    const char* mask;
    std::int64_t residues;
    const char* of_class;
  } cases[] = {
      {"dilated(3,2)", 2, "window(3)"},
      {"strided(4)", 4, "all"},
      {"strided(4) & causal & window(17,30)", 4, "causal & window(4,7)"},
      {"dilated(3,4) | strided(6)", 2, "dilated(3,2) | strided(3)"},
      {"dilated(5,4) & strided(6)", 12, "window(1)"},
      {"strided(3) & !window(5)", 3, "!window(1)"},
      {"heads(0: dilated(2,4), *: causal & strided(6))", 2, "heads(0: dilated(2,2), *: causal & strided(3))"},
      {"dilated(4,3) | none", 3, "window(4)"},
      {"strided(5) | window(0)", 5, "all"},
      {"strided(4) & strided(2000)", 4, "strided(500)"},
      {"where((q - k) % 4 == 0 & q >= k)", 4, "where(1 & q >= k)"},
      {"where((k - q) % -6 == 0)", 6, "all"},
      {"where(!((q - k) % 4)) & causal", 4, "causal"},
      {"where(q % 8 == k % 8) & window(20)", 8, "window(2)"},
      {"where(!(k % 8 != q % 8))", 8, "all"},
      {"where(abs(q - k) <= 9 & 0 == (3 * (k - q) + 12) % 12)", 4,
       "where(abs((q - k) * 4) <= 9 & 0 == (3 * ((k - q) * 4) + 12) % 12)"},
      {"where((q - k) % 4 == 0 | (q - k) % 6 == 0)", 2, "where((q - k) * 2 % 4 == 0 | (q - k) * 2 % 6 == 0)"},
      {"where((q - k) % 4 == 0) & where((q - k) % 6 == 0)", 12, "all"},
      {"where(((q - k) % 4 == 0) * ((q - k) % 3 == 0))", 12, "all"},
      {"where(q == k | (q - k) % 5 == 0 & h == 0)", 5, "where(q == k | 1 & h == 0)"},
      {"where(q - k == 6 | q - k == -9)", 3, "where((q - k) * 3 == 6 | (q - k) * 3 == -9)"},
  };
  for (const auto& [text, residues, of_class] : cases) {
    const Mask mask = parse(text);
    const std::optional<ResidueView> view = residue_view(mask);
    ASSERT_TRUE(view.has_value()) << text;
    EXPECT_EQ(view->residues, residues) << text;
    EXPECT_EQ(view->of_class.text(), parse(of_class).text()) << text;
    expect_same_pairs(mask, *view);
    if (HasFatalFailure()) return;
  }
}

TEST(ResidueView, IsThereForDifferencesWithADivisorOnly) {
  for (const char* text : {"causal",
                           "all",
                           "none",
                           "window(3)",
                           "window(0)",
                           "dilated(0,4)",
                           "strided(1)",
                           "dilated(2,1)",
                           "dilated(2,2) | causal",
                           "dilated(2,2) | dilated(2,3)",
                           "!strided(2)",
                           "heads(0: dilated(2,4), *: causal)",
                           "dilated(2,4) | global(1)",
                           "strided(2) & documents([0,5])",
                           "batch(0: strided(2), *: strided(4))",
                           "strided(2) & sink(4)",
                           "strided(1025)",
                           "strided(8589934603) & strided(457357290657760722)",  // of which int64 makes 6
                           "where((q - k) % 4 == 1)",
                           "where((q - k) % 4)",
                           "where(q % 4 == 0)",
                           "where(q % 4 == k % 2)",
                           "where((q + k) % 4 == 0)",
                           "where((q - k) % 4 == 0 | q < 3)",
                           "where((q - k) / 4 == 0)",
                           "where((q - k) % 4 == 0 & b == 0)",
                           "where((q - k) % 4 == 0 & k > 5)",
                           "where((q - k) % 1 == 0)",
                           "where(q == k)",
                           "where((q - k) % (h + 2) == 0)",
                           "where(!((q - k) % 4 == 0))"})
    EXPECT_FALSE(residue_view(parse(text)).has_value()) << text;
  const auto of_least = residue_view(parse("where((q - k) % 4 == 0 & q - k >= -9223372036854775807 - 1)"));
  ASSERT_TRUE(of_least.has_value());
  EXPECT_EQ(of_least->of_class.text(), "where(1 & (q - k) * 4 >= -9223372036854775808)");
}

TEST(ResidueView, OfRandomConditions) {
  constexpr const char* kParts[] = {
      "(q - k) % 4 == 0", "q % 6 == k % 6", "!((k - q) % 8)",      "2 * (q - k) % 12 == 0",
      "q >= k",           "q - k == 9",     "(q - k) % 3 != 1",    "abs(q - k) <= 20",
      "h == 0",           "q == k",         "(q - k + 8) % 4 < 1", "(k - q) * (h + 2) % 4 == 0"};
  std::mt19937 random(5);
  const auto part = [&] { return fmt::format("({})", kParts[random() % std::size(kParts)]); };
  int viewed = 0;
  for (int i = 0; i < 400; ++i) {
    std::string text = part();
    for (auto more = random() % 3; more > 0; --more) {
      text = fmt::format("{} {} {}", text, std::string_view("&&*|").substr(random() % 4, 1), part());
      if (random() % 3 == 0) text = fmt::format("!!({})", text);
    }
    const Mask mask = parse(fmt::format("where({})", text));
    const std::optional<ResidueView> view = residue_view(mask);
    if (!view) continue;
    ++viewed;
    expect_same_pairs(mask, *view);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(viewed, 100);
}

TEST(ResidueView, OfRandomMasks) {
  int viewed = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const MaskExtent extent{.queries = kKeys, .keys = kKeys, .batch = 1, .heads = 2};
    const auto stride = static_cast<std::int64_t>(2 + seed % 7);
    const Mask mask = RandomMask(seed, extent, true).expression(static_cast<int>(seed % 3)) & strided(stride);
    const std::optional<ResidueView> view = residue_view(mask);
    if (!view || view->residues > kKeys) continue;
    ++viewed;
    expect_same_pairs(mask, *view);
    if (HasFatalFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GE(viewed, 20);
}

// Each pair that the mask allows is allowed by one of the two, and no other is.
void expect_split(const Mask& mask, const CombSplit& split) {
  const std::int64_t n = split.combs.residues, keys = kKeys / n * n;
  const MaskExtent extent{.queries = keys, .keys = keys, .heads = 2};
  const BoundMask whole(mask, extent), rest(split.rest, extent);
  const BoundMask of_class(split.combs.of_class, {.queries = keys / n, .keys = keys / n, .heads = 2});
  for (const std::int64_t head : {0, 1})
    for (std::int64_t row = 0; row < keys; ++row)
      for (std::int64_t key = 0; key < keys; ++key) {
        const bool in_rest = rest.allows(rest.group_of(0, head), row, key);
        const bool in_combs = row % n == key % n && of_class.allows(of_class.group_of(0, head), row / n, key / n);
        ASSERT_EQ(whole.allows(whole.group_of(0, head), row, key), in_rest || in_combs)
            << mask.text() << " modulo " << n << ": row " << row << ", key " << key << ", head " << head;
        ASSERT_FALSE(in_rest && in_combs) << mask.text() << ": row " << row << ", key " << key;
      }
}

TEST(CombSplit, IsTheMaskWithoutItsCombsAndTheseByClass) {
  const struct {
    const char* mask;
    std::vector<std::int64_t> residues;
    const char *rest, *of_class;  // of the first
  } cases[] = {
      {"causal & (window(6) | strided(6))", {6}, "causal & window(6)", "causal & !(causal & window(1))"},
      {"window(3) | dilated(4,8)", {8}, "window(3)", "(window(0) | window(4)) & !window(0)"},
      {"strided(4) | strided(9)", {9, 4}, "strided(4)", "!strided(4)"},
      {"strided(4) | window(1) | strided(8)", {4}, "window(1)", "!window(0)"},
      {"heads(0: causal, *: strided(5))",
       {5},
       "heads(0: causal, *: none)",
       "heads(0: causal, *: all) & !heads(0: causal, *: none)"},
  };
  for (const auto& [text, residues, rest, of_class] : cases) {
    const Mask mask = parse(text);
    const std::vector<CombSplit> splits = comb_splits(mask);
    ASSERT_EQ(splits.size(), residues.size()) << text;
    for (std::size_t i = 0; i < splits.size(); ++i) {
      EXPECT_EQ(splits[i].combs.residues, residues[i]) << text;
      expect_split(mask, splits[i]);
      if (HasFatalFailure()) return;
    }
    EXPECT_EQ(splits.front().rest.text(), parse(rest).text()) << text;
    EXPECT_EQ(splits.front().combs.of_class.text(), parse(of_class).text()) << text;
  }
}

TEST(CombSplit, IsThereForCombsAmongDifferencesOnly) {
  for (const char* text :
       {"causal", "strided(4)", "dilated(3,4) | strided(6)", "window(3) & !strided(4)", "dilated(3,4) | global(1)",
        "strided(2) & window(9) | documents([0,5])", "window(3) | strided(1025)", "batch(0: strided(2), *: causal)",
        "strided(1) | window(2)", "strided(4) & window(100)", "window(3) | dilated(0,4)"})
    EXPECT_TRUE(comb_splits(parse(text)).empty()) << text;
  EXPECT_EQ(comb_splits(parse("window(1) | strided(2) | strided(3) | strided(5) | strided(7) | strided(11)")).size(),
            kMostCombSplits);
}

TEST(CombSplit, OfRandomMasks) {
  std::size_t splits = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    const MaskExtent extent{.queries = kKeys, .keys = kKeys, .batch = 1, .heads = 2};
    const auto stride = static_cast<std::int64_t>(2 + seed % 7);
    const Mask mask = RandomMask(seed, extent, true).expression(static_cast<int>(seed % 3)) | strided(stride);
    for (const CombSplit& split : comb_splits(mask)) {
      if (split.combs.residues > kKeys) continue;
      ++splits;
      expect_split(mask, split);
      if (HasFatalFailure()) FAIL() << "seed " << seed;
    }
  }
  EXPECT_GE(splits, 20u);
}

}  // namespace
}  // namespace stof
