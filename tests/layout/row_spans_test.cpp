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

}  // namespace
}  // namespace stof
