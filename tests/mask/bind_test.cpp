// SPDX-License-Identifier: Apache-2.0
// Fixing the extent: what fits, which heads and items share a group, sizes at the limits.
#include "src/mask/bind.h"

#include <limits>

#include "src/mask/traits.h"
#include "stof/where.h"
#include "tests/expect_error.h"
#include "tests/mask/naive.h"

namespace stof {
namespace {

void expect_misfit(const Mask& mask, const MaskExtent& extent, const std::string& message) {
  EXPECT_ERROR(BoundMask(mask, extent), ErrorKind::invalid_argument, message);
}

Tensor zeros(DType dtype, const Shape& shape) {
  Tensor tensor(dtype, shape);
  std::fill_n(static_cast<std::uint8_t*>(tensor.data()), tensor.bytes(), std::uint8_t{0});
  return tensor;
}

TEST(Bind, RefusesWhatDoesNotFit) {
  const MaskExtent square{.queries = 4, .keys = 4, .batch = 2, .heads = 3};
  const Mask dense = bits(zeros(DType::boolean, {3, 4, 5}).view());
  const Mask table = blocks(2, zeros(DType::boolean, {2, 2, 2}).view());
  const Mask ids = document_ids(zeros(DType::i32, {3, 4}).view());
  expect_misfit(parse("documents([0,2,4])"), square,
                "documents: start 4 for 4 keys; accepted: starts below the number of keys");
  expect_misfit(dense, square,
                "bits: the array is [3, 4, 5]; accepted: [4, 4], [3, 4, 4] or [2, 3, 4, 4], where 1 fits every size");
  expect_misfit(table, square, "blocks: the array is [2, 2, 2]; accepted: [2, 2] or [3, 2, 2]");
  expect_misfit(ids, square, "document_ids: the array is [3, 4]; accepted: [4] or [2, 4], where 1 fits every batch");
  expect_misfit(tree({-1, 0, 1}), square, "tree: 3 parents for 4 keys; accepted: one per key");
  expect_misfit(natten(2, 4, 1, 1), square, "natten: 4 queries and 4 keys; accepted: 2 x 4 = 8 of both");
  expect_misfit(causal() | (dense & parse("sink(2)")), square,
                "bits: the array is [3, 4, 5]; accepted: [4, 4], [3, 4, 4] or [2, 3, 4, 4], where 1 fits every size");
}

TEST(Bind, WhatIsSharedByTheItemsIsRefusedWithAllOfThem) {
  const MaskExtent square{.queries = 4, .keys = 4, .batch = 2, .heads = 3};
  const auto bind = [&](const Mask& mask) { return BoundMask::once_for_like_items(mask, square); };
  EXPECT_ERROR(bind(bits(zeros(DType::boolean, {4, 5}).view())), ErrorKind::invalid_argument,
               "bits: the array is [4, 5]; accepted: [4, 4], [3, 4, 4] or [2, 3, 4, 4], where 1 fits every size");
  EXPECT_ERROR(bind(document_ids(zeros(DType::i32, {5}).view())), ErrorKind::invalid_argument,
               "document_ids: the array is [5]; accepted: [4] or [2, 4], where 1 fits every batch");
  EXPECT_EQ(bind(bits(zeros(DType::boolean, {1, 1, 4, 4}).view())).extent().batch, 1);
  EXPECT_EQ(bind(document_ids(zeros(DType::i32, {1, 4}).view())).extent().batch, 1);
  EXPECT_EQ(bind(document_ids(zeros(DType::i32, {2, 4}).view())).extent().batch, 2);
}

TEST(Bind, OneRowOfDocumentIdsIsOfEveryItem) {
  const BoundMask mask(document_ids(zeros(DType::i32, {1, 4}).view()),
                       {.queries = 4, .keys = 4, .batch = 3, .heads = 2});
  EXPECT_EQ(mask.groups(), 1);
  EXPECT_TRUE(mask.allows(mask.group_of(2, 1), 3, 0));
}

TEST(Bind, SelectionsNameEachIndexOnce) {
  const MaskExtent extent{.queries = 4, .keys = 4, .batch = 2, .heads = 5};
  expect_misfit(parse("heads(0-5: all)"), extent, "heads: 0-5 selects head 5; accepted: 0 to 4");
  expect_misfit(parse("heads(7: all, *: none)"), extent, "heads: 7 selects head 7; accepted: 0 to 4");
  expect_misfit(parse("heads(0-1: all, 3-4: none)"), extent,
                "heads: no mask for head 2; every one of 0 to 4 needs a mask, or give '*: MASK'");
  expect_misfit(parse("heads(1-4: all)"), extent,
                "heads: no mask for head 0; every one of 0 to 4 needs a mask, or give '*: MASK'");
  expect_misfit(parse("batch(0: all)"), extent,
                "batch: no mask for item 1; every one of 0 to 1 needs a mask, or give '*: MASK'");
  EXPECT_EQ(BoundMask(parse("heads(0-1: all, 2-4: none)"), extent).groups(), 2);
}

TEST(Bind, EqualHeadsAndItemsShareAGroup) {
  const MaskExtent extent{.queries = 4, .keys = 4, .batch = 3, .heads = 8};
  const auto groups = [&](const char* text) { return BoundMask(parse(text), extent).groups(); };
  EXPECT_EQ(groups("causal"), 1);
  EXPECT_EQ(groups("heads(0-3: causal, 4-7: window(1))"), 2);
  EXPECT_EQ(groups("heads(0: causal, 1: window(1), 2: causal, *: window(1))"), 2);
  EXPECT_EQ(groups("heads(0: batch(1: causal, *: all), *: all)"), 2);
  EXPECT_EQ(groups("batch(0: heads(0: causal, *: sink(1)), *: sink(1))"), 2);
  EXPECT_EQ(groups("where(h == 1) | where(h == 11)"), 2);
  const BoundMask mask(parse("heads(0-3: causal, 4-7: window(1))"), extent);
  for (std::int64_t b = 0; b < 3; ++b)
    for (std::int64_t h = 0; h < 8; ++h) EXPECT_EQ(mask.group_of(b, h), h / 4);
}

TEST(Bind, ExtentsAreChecked) {
  expect_misfit(all(), {.queries = -1, .keys = 4}, "mask: queries = -1; accepted: 0 to 1099511627776");
  expect_misfit(all(), {.queries = 4, .keys = std::int64_t{1} << 41},
                "mask: keys = 2199023255552; accepted: 0 to 1099511627776");
  expect_misfit(all(), {.queries = 4, .keys = 4, .batch = 0}, "mask: batch = 0; accepted: 1 to 1048576");
  expect_misfit(all(), {.queries = 4, .keys = 4, .heads = 0}, "mask: heads = 0; accepted: 1 to 1048576");
}

TEST(Bind, NothingToAskIsFine) {
  for (const MaskExtent& extent : {MaskExtent{0, 0}, MaskExtent{0, 5}, MaskExtent{5, 0}})
    for (const char* text : {"!causal", "bigbird(4,3,2,1,1)", "random_blocks(4,1,1)", "where(q / (k - k))",
                             "strided(3)", "segments([])", "global([1,5])"}) {
      const BoundMask mask(parse(text), extent);
      EXPECT_EQ(mask.classify(0, {0, extent.queries}, {0, extent.keys}), BlockKind::empty);
      EXPECT_EQ(mask.classify(0, {0, extent.queries}, {0, 7}), BlockKind::empty);
    }
  const Mask empty = bits(zeros(DType::boolean, {0, 5}).view());
  EXPECT_EQ(BoundMask(empty, {.queries = 0, .keys = 5}).groups(), 1);
}

TEST(Bind, PositionsUpToABillion) {
  constexpr std::int64_t kLong = 1000000000;
  const MaskExtent extent{.queries = kLong, .keys = kLong};
  for (const char* text :
       {"causal & window(4096)", "global([999999999]) | dilated(1000000,1000)", "strided(999999937)",
        "window(1152921504606846976)", "dilated(1152921504606846976,1)", "documents([0,500000000,999999000])",
        "prefix(999999990)", "segments([[999999000,1000000000,999999500,1000000000,\"causal\"]])",
        "bigbird(1048576,3,2,3,1)", "random_blocks(1000003,5,9)",
        "where((q - k) % 999999937 == 0 | q * k % 10 == 1)"}) {
    const BoundMask mask(parse(text), extent);
    for (const std::int64_t row : {std::int64_t{0}, kLong / 2, kLong - 64})
      for (const std::int64_t key : {std::int64_t{0}, kLong / 2 - 17, kLong - 100}) {
        SCOPED_TRACE(text);
        expect_consistent(mask, 0, {row, row + 64}, {key, key + 100});
      }
    mask.classify(0, {0, kLong}, {0, kLong});
  }
  const BoundMask window(parse("causal & window(4096)"), extent);
  EXPECT_EQ(window.classify(0, {kLong - 64, kLong}, {kLong - 4096, kLong - 64}), BlockKind::full);
  EXPECT_EQ(window.classify(0, {kLong - 64, kLong}, {0, kLong - 4161}), BlockKind::empty);
  EXPECT_ERROR(BoundMask(parse("random_blocks(64,1,1)"), {.queries = 16000000, .keys = kLong}), ErrorKind::unsupported,
               "random_blocks(64,1,1) draws from 250000 x 15625000 blocks; accepted: at most 4294967296 pairs, so use "
               "larger blocks");
  EXPECT_ERROR(BoundMask(parse("bigbird(1,1,1,0,1)"), extent), ErrorKind::unsupported,
               "bigbird(1,1,1,0,1) has 1000000000 row-blocks; accepted: at most 16777216, so use larger blocks");
}

TEST(Traits, SayWhatPlanningMayShare) {
  const Mask dense = bits(zeros(DType::boolean, {2, 1, 4, 4}).view());
  const Mask table = blocks(2, zeros(DType::boolean, {3, 2, 2}).view());
  for (const Mask& mask :
       {parse("causal & window(3) | global(4) & documents([0,2]) | where(q > k)"), table, tree({-1})})
    EXPECT_FALSE(depends_on_length(mask)) << mask.text();
  for (const Mask& mask : {dense, natten(2, 2, 1, 1), parse("causal & bigbird(4,3,2,1,1)")})
    EXPECT_TRUE(depends_on_length(mask)) << mask.text();
  EXPECT_TRUE(depends_on_batch(dense));
  EXPECT_FALSE(traits_of(dense).head);
  EXPECT_TRUE(traits_of(table).head);
  EXPECT_FALSE(depends_on_batch(table));
  EXPECT_TRUE(depends_on_batch(parse("all & !where(b == 1)")));
  EXPECT_TRUE(traits_of(parse("batch(0: all, *: heads(0: causal, *: all))")).head);
  EXPECT_TRUE(depends_on_batch(parse("batch(0: all, *: causal)")));
  EXPECT_FALSE(traits_of(parse("batch(0: all, *: causal)")).head);
  const MaskExtent extent{.queries = 3, .keys = 5, .batch = 1, .heads = 2};
  for (const char* text : {"all", "none", "causal & !window(3) | strided(4) & dilated(2,2)", "where(q - k > h)",
                           "heads(0: causal, *: window(2))"})
    EXPECT_TRUE(BoundMask(parse(text), extent).name_along_diagonal(0, {0, 3}, {0, 5})) << text;
  for (const char* text : {"causal & sink(1)", "prefix(3)", "documents([0,2])", "where(q > 2)", "random_blocks(2,1,1)"})
    EXPECT_FALSE(BoundMask(parse(text), extent).name_along_diagonal(0, {0, 3}, {0, 5})) << text;
}

}  // namespace
}  // namespace stof
