// SPDX-License-Identifier: Apache-2.0
// Every term of docs/masks.md, and random expressions of them: packed and unpacked, measured and counted.
#include "tests/layout/expect_layout.h"
#include "tests/mask/every_term.h"
#include "tests/mask/random_mask.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

const MaskExtent kExtents[] = {{.queries = 156, .keys = 156, .batch = 2, .heads = 3},
                               {.queries = 70, .keys = 200, .batch = 2, .heads = 3},
                               {.queries = 200, .keys = 130, .batch = 2, .heads = 3}};

TEST(EveryTerm, UnpacksToItselfAndIsMeasuredExactly) {
  for (const MaskExtent& extent : kExtents) {
    const TemporaryFolder folder;
    std::size_t next = 0;
    for (const DefinedTerm& term : every_term(extent, folder.path())) {
      SCOPED_TRACE(testing::Message() << term.text.substr(0, 80) << " of " << extent.queries << "x" << extent.keys);
      const BoundMask mask(parse(term.text, folder.path()), extent);
      expect_packed(mask, kBlockFormats[next++ % kBlockFormats.size()]);
      expect_packed(mask, {});
      expect_packed_by_rows(mask);
      expect_measured(mask, std::span(kBlockSizes).first(3));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(RandomExpressions, UnpackToThemselvesAndAreMeasuredExactly) {
  constexpr MaskExtent kSmaller[] = {{.queries = 130, .keys = 130, .batch = 1, .heads = 2},
                                     {.queries = 1, .keys = 190, .batch = 2, .heads = 1},
                                     {.queries = 66, .keys = 140, .batch = 1, .heads = 2},
                                     {.queries = 140, .keys = 70, .batch = 1, .heads = 1},
                                     {.queries = 64, .keys = 64, .batch = 2, .heads = 2}};
  for (unsigned seed = 0; seed < 600; ++seed) {
    const MaskExtent& extent = kSmaller[seed % std::size(kSmaller)];
    const Mask expression = RandomMask(seed, extent, true).expression(static_cast<int>(seed % 4));
    SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << expression.text().substr(0, 200));
    const BoundMask mask(expression, extent);
    expect_packed(mask, kBlockFormats[seed / 5 % kBlockFormats.size()]);
    expect_packed_by_rows(mask);
    expect_measured(mask, std::span(&kBlockSizes[seed % std::size(kBlockSizes)], 1));
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace stof
