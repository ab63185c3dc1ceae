// SPDX-License-Identifier: Apache-2.0
#include "stof/inspect.h"
#include "tests/expect_error.h"
#include "tests/mask/naive.h"

namespace stof {
namespace {

constexpr MaskExtent kExtent{.queries = 70, .keys = 90, .batch = 2, .heads = 3};

TEST(InspectMask, AgreesWithElements) {
  const Mask mask = parse("heads(0: causal & window(9), *: batch(0: strided(3), 1: none))");
  const BoundMask bound(mask, kExtent);
  const Tensor dense = dense_mask(mask, kExtent);
  EXPECT_EQ(dense.shape(), (Shape{2, 3, 70, 90}));
  const auto* allowed = dense.as<std::uint8_t>();
  std::int64_t pairs = 0, empty_rows = 0;
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t h = 0; h < 3; ++h)
      for (std::int64_t i = 0; i < 70; ++i) {
        const std::int64_t before = pairs;
        for (std::int64_t j = 0; j < 90; ++j, ++allowed) {
          ASSERT_EQ(*allowed, bound.allows(bound.group_of(b, h), i, j) ? 1 : 0);
          pairs += *allowed;
        }
        empty_rows += pairs == before ? 1 : 0;
      }
  const MaskSummary summary = summarise(mask, kExtent);
  EXPECT_EQ(summary.allowed_pairs, static_cast<double>(pairs));
  EXPECT_DOUBLE_EQ(summary.density, static_cast<double>(pairs) / (2 * 3 * 70 * 90));
  EXPECT_EQ(summary.empty_rows, empty_rows);
  EXPECT_EQ(summary.distinct, 3);
}

TEST(InspectMask, DrawsTheHeadThatIsAskedFor) {
  const Mask mask = parse("heads(0: all, 1: causal)");
  const MaskExtent extent{.queries = 2, .keys = 2, .batch = 1, .heads = 2};
  const std::string legend = "█ all  ▒ some  · none; each 1 query x 1 key\n";
  EXPECT_EQ(draw(mask, extent), "0 ████\n1 ████\n" + legend);
  EXPECT_EQ(draw(mask, extent, 0, 1), "0 ██··\n1 ████\n" + legend);
  EXPECT_ERROR(draw(mask, extent, 1, 0), ErrorKind::invalid_argument,
               "draw: item 1, head 0; accepted: items 0 to 0, heads 0 to 1");
  EXPECT_ERROR(draw(mask, extent, 0, -1), ErrorKind::invalid_argument,
               "draw: item 0, head -1; accepted: items 0 to 0, heads 0 to 1");
}

TEST(InspectMask, NothingToLookAt) {
  const MaskExtent no_rows{.queries = 0, .keys = 5}, no_keys{.queries = 3, .keys = 0};
  EXPECT_EQ(dense_mask(all(), no_rows).shape(), (Shape{1, 1, 0, 5}));
  EXPECT_EQ(summarise(all(), no_rows).density, 0);
  EXPECT_EQ(summarise(all(), no_keys).density, 0);
  EXPECT_EQ(summarise(all(), no_keys).empty_rows, 3);
}

TEST(InspectMask, RefusesWhatDoesNotFit) {
  EXPECT_ERROR(dense_mask(all(), {.queries = std::int64_t{1} << 36, .keys = std::int64_t{1} << 36}),
               ErrorKind::invalid_argument, "shape [1, 1, 68719476736, 68719476736] has more than 2^63 - 1 elements");
  EXPECT_ERROR(dense_mask(tree({-1, 0}), {.queries = 3, .keys = 3}), ErrorKind::invalid_argument,
               "tree: 2 parents for 3 keys; accepted: one per key");
}

}  // namespace
}  // namespace stof
