// SPDX-License-Identifier: Apache-2.0
// Spans say of every row what the mask says, and of masks that allow rows more there are none.
#include "src/layout/row_spans.h"

#include <gtest/gtest.h>

#include "tests/layout/masks.h"

namespace stof {
namespace {

TEST(RowSpans, AllowWhatTheMaskAllows) {
  int with = 0, without = 0;
  for (const LayoutCase& of : layout_cases()) {
    const BoundMask mask(parse(of.mask), of.extent);
    const auto spans = row_spans(mask);
    ++(spans ? with : without);
    if (!spans) continue;
    ASSERT_EQ(std::ssize(*spans), of.extent.queries) << of;
    for (std::int64_t row = 0; row < of.extent.queries; ++row) {
      const RowSpan& span = (*spans)[static_cast<std::size_t>(row)];
      ASSERT_LE(span.prefix_end, span.begin) << of;
      for (std::int64_t key = 0; key < of.extent.keys; ++key)
        ASSERT_EQ(key < span.prefix_end || (span.begin <= key && key < span.end), mask.allows(0, row, key))
            << of << ", row " << row << ", key " << key;
    }
  }
  EXPECT_GT(with, 60);
  EXPECT_GT(without, 40);
}

TEST(RowSpans, AreOfPrefixesAndOneRange) {
  const MaskExtent extent{.queries = 300, .keys = 400, .heads = 2};
  const auto has_spans = [&](const char* text) { return row_spans(BoundMask(parse(text), extent)).has_value(); };
  for (const char* text : {"causal & (window(20) | sink(4))", "prefix(50) | causal", "documents([0,99]) & causal",
                           "global(3)", "none", "window(7,3)"})
    EXPECT_TRUE(has_spans(text)) << text;
  for (const char* text : {"dilated(9,2)", "causal & (window(20) | global([70]))", "heads(0: causal, *: all)"})
    EXPECT_FALSE(has_spans(text)) << text;
}

// A rule gives the span of each row, in words of its own, and masks whose rows are alike have one.
TEST(RowSpans, OfAlikeRowsHaveARule) {
  int with = 0;
  for (const LayoutCase& of : layout_cases()) {
    const auto spans = row_spans(BoundMask(parse(of.mask), of.extent));
    const std::int64_t first = of.extent.offset(), keys = of.extent.keys;
    const std::optional<SpanRule> rule = spans ? span_rule(*spans, first, keys) : std::nullopt;
    if (!rule) continue;
    ++with;
    for (std::int64_t row = 0; row < of.extent.queries; ++row) {
      const RowSpan& span = (*spans)[static_cast<std::size_t>(row)];
      for (std::int64_t key = 0; key < keys; ++key)
        ASSERT_EQ(key < span.prefix_end || (span.begin <= key && key < span.end),
                  key < rule->prefix_end || (first + row + rule->begin <= key && key < first + row + rule->end))
            << of << ", row " << row << ", key " << key;
    }
  }
  EXPECT_GT(with, 40);
}

TEST(RowSpans, OfNamedMasksHaveARule) {
  const MaskExtent extent{.queries = 300, .keys = 400, .heads = 2};
  const auto rule_of = [&](const char* text) {
    return span_rule(row_spans(BoundMask(parse(text), extent)).value(), extent.offset(), extent.keys);
  };
  constexpr std::int32_t kNone = SpanRule::kNoBound;
  EXPECT_EQ(rule_of("all"), (SpanRule{0, -kNone, kNone}));
  EXPECT_EQ(rule_of("causal"), (SpanRule{0, -kNone, 1}));
  EXPECT_EQ(rule_of("causal & window(20)"), (SpanRule{0, -20, 1}));
  EXPECT_EQ(rule_of("causal & (window(20) | sink(4))"), (SpanRule{4, -20, 1}));
  EXPECT_EQ(rule_of("prefix(150) | causal"), (SpanRule{150, -kNone, 1}));
  EXPECT_EQ(rule_of("documents([0,199]) & causal"), std::nullopt);
  EXPECT_EQ(span_rule({}, 0, 0), SpanRule{});
}

// Rows see what their mask allows of the keys up to their own, whatever it allows of later ones.
TEST(RowSpans, OfLastRowsHaveARule) {
  constexpr std::int64_t kKeys = 300;
  constexpr std::int32_t kNone = SpanRule::kNoBound;
  const auto rule_of = [&](const char* text) -> std::optional<SpanRule> {
    const BoundMask mask(parse(text), {.queries = kKeys, .keys = kKeys, .heads = 2});
    const auto rows = row_spans(mask);
    const std::optional<SpanRule> rule = rows ? last_row_rule(*rows) : std::nullopt;
    for (std::int64_t p = 0; rule && p < kKeys; ++p)
      for (std::int64_t key = 0; key <= p; ++key)
        EXPECT_EQ(mask.allows(0, p, key), key < rule->prefix_end || (key >= p + rule->begin && key < p + rule->end))
            << text << ", row " << p << ", key " << key;
    return rule;
  };
  EXPECT_EQ(rule_of("all"), (SpanRule{0, -kNone, kNone}));
  EXPECT_EQ(rule_of("causal"), (SpanRule{0, -kNone, kNone}));
  EXPECT_EQ(rule_of("window(20)"), (SpanRule{0, -20, kNone}));
  EXPECT_EQ(rule_of("causal & (window(20) | sink(4))"), (SpanRule{4, -20, kNone}));
  EXPECT_EQ(rule_of("causal & (window(2) | sink(100))"), (SpanRule{100, -2, kNone}));
  EXPECT_EQ(rule_of("causal & !window(3)"), (SpanRule{0, -kNone, -3}));
  EXPECT_EQ(rule_of("causal & dilated(8,2)"), std::nullopt);
  EXPECT_EQ(rule_of("documents([0,199]) & causal"), std::nullopt);
  EXPECT_EQ(last_row_rule({}), SpanRule{});
}

}  // namespace
}  // namespace stof
