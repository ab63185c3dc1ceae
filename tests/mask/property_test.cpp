// SPDX-License-Identifier: Apache-2.0
// Properties of random expressions: rectangles agree with elements, combinations with their parts, text with the tree.
#include <array>
#include <optional>

#include "tests/mask/naive.h"
#include "tests/mask/random_mask.h"

namespace stof {
namespace {

const MaskExtent kExtents[] = {
    {.queries = 64, .keys = 64, .batch = 2, .heads = 3},   {.queries = 1, .keys = 130, .batch = 1, .heads = 2},
    {.queries = 37, .keys = 200, .batch = 2, .heads = 1},  {.queries = 90, .keys = 41, .batch = 1, .heads = 2},
    {.queries = 150, .keys = 150, .batch = 1, .heads = 1}, {.queries = 1, .keys = 1, .batch = 1, .heads = 1}};

TEST(Properties, RectanglesAgreeWithElements) {
  for (unsigned seed = 0; seed < 900; ++seed) {
    const MaskExtent& extent = kExtents[seed % std::size(kExtents)];
    const Mask mask = RandomMask(seed, extent, true).expression(static_cast<int>(seed % 4));
    expect_consistent(mask, extent, seed, 30);
    if (HasFatalFailure()) FAIL() << "seed " << seed;
  }
}

TEST(Properties, WideRowsAgreeWithElements) {
  // Rows of more words than one walk of the tree fills.
  const MaskExtent extent{.queries = 3, .keys = 70000, .batch = 1, .heads = 1};
  for (unsigned seed = 0; seed < 40; ++seed) {
    const BoundMask mask(RandomMask(seed, extent, true).expression(1), extent);
    expect_consistent(mask, 0, {0, 3}, {static_cast<std::int64_t>(seed), 70000});
    expect_consistent(mask, 0, {1, 2}, {-5, 70100});
    if (HasFatalFailure()) FAIL() << "seed " << seed;
  }
}

TEST(Properties, CombinationsAreThoseOfTheirParts) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const MaskExtent& extent = kExtents[seed % std::size(kExtents)];
    RandomMask random(seed, extent, true);
    const Mask a = random.expression(1), b = random.expression(1);
    const BoundMask bound_a(a, extent), bound_b(b, extent);
    const BoundMask both(a & b, extent), either(a | b, extent), opposite(!a, extent);
    for (int n = 0; n < 200; ++n) {
      const std::int64_t item = random.below(extent.batch), head = random.below(extent.heads);
      const std::int64_t row = random.below(extent.queries), key = random.below(extent.keys);
      const auto ask = [&](const BoundMask& mask) { return mask.allows(mask.group_of(item, head), row, key); };
      ASSERT_EQ(ask(both), ask(bound_a) && ask(bound_b)) << (a & b).text();
      ASSERT_EQ(ask(either), ask(bound_a) || ask(bound_b)) << (a | b).text();
      ASSERT_EQ(ask(opposite), !ask(bound_a)) << a.text();
    }
  }
}

TEST(Properties, TextParsesBackToAnEqualMask) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    const Mask mask = RandomMask(seed, kExtents[0], false).expression(static_cast<int>(seed % 6));
    const Mask again = parse(mask.text());
    ASSERT_EQ(again, mask) << mask.text();
    ASSERT_EQ(again.text(), mask.text());
    ASSERT_EQ(again.fingerprint(), mask.fingerprint());
  }
}

}  // namespace
}  // namespace stof
