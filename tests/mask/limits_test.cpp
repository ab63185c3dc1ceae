// SPDX-License-Identifier: Apache-2.0
// What would take all memory, or hours, is refused before it does: long texts and lists, trees that double, extents and
// heads beyond counting.
#include <gtest/gtest.h>

#include <string>

#include "src/mask/argument.h"
#include "src/mask/bind.h"
#include "src/mask/expression.h"
#include "src/mask/stats.h"
#include "stof/where.h"
#include "tests/expect_error.h"

namespace stof {
namespace {

constexpr std::int64_t kBillion = 1000000000;

std::string repeated(const std::string& piece, std::size_t count) {
  std::string text;
  text.reserve(piece.size() * count);
  for (std::size_t i = 0; i < count; ++i) text += piece;
  return text;
}

// The first line of the message.
std::string refusal_of(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(ErrorKind::invalid_argument));
    const std::string message = error.what();
    return message.substr(0, message.find('\n'));
  }
  return "accepted";
}

TEST(MaskLimits, ListsInATextStopAtTheLimit) {
  const std::string many = repeated("0,", kMaxElements + 1);
  EXPECT_EQ(refusal_of("global([" + many), "mask: more than 4194304 elements in global(g) or global([i,j,...])");
  EXPECT_EQ(refusal_of("documents([" + many), "mask: more than 4194304 elements in documents([starts])");
  EXPECT_EQ(refusal_of("tree([" + many), "mask: more than 4194304 elements in tree([parents])");
  EXPECT_EQ(refusal_of("segments([" + repeated("[0,0,0,0,full],", kMaxSegments + 1)),
            "mask: more than 1000000 elements in segments([[q0,q1,k0,k1,\"full\"],...])");
}

TEST(MaskLimits, ListsThatAreGivenAsVectors) {
  const std::vector<std::int64_t> many(kMaxElements + 1, 0);
  EXPECT_ERROR(global_tokens(many), ErrorKind::invalid_argument, "global: 4194305 elements; accepted: at most 4194304");
  EXPECT_ERROR(documents(many), ErrorKind::invalid_argument, "documents: 4194305 elements; accepted: at most 4194304");
  EXPECT_ERROR(tree(many), ErrorKind::invalid_argument, "tree: 4194305 elements; accepted: at most 4194304");
  EXPECT_ERROR(segments(std::vector<Segment>(kMaxSegments + 1, Segment{0, 0, 0, 0})), ErrorKind::invalid_argument,
               "segments: 1000001 elements; accepted: at most 1000000");
  EXPECT_ERROR(heads(std::vector<Selection>(kMaxTerms + 1, {0, 0, all()})), ErrorKind::invalid_argument,
               "heads: 65537 elements; accepted: at most 65536");
}

TEST(MaskLimits, TheLongestListIsReadBackFromItsText) {
  std::vector<std::int64_t> positions(kMaxElements);
  for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = kMaxExtent - static_cast<std::int64_t>(i);
  const Mask mask = global_tokens(positions);
  EXPECT_LE(mask.text().size(), kMaxText);
  EXPECT_EQ(parse(mask.text()), mask);
  positions.back() = 0;
  EXPECT_ERROR(mask & global_tokens(positions), ErrorKind::invalid_argument,
               "mask whose text has 117440518 bytes; accepted: at most 67108864");
}

TEST(MaskLimits, LongTexts) {
  EXPECT_ERROR(parse(std::string(kMaxText + 1, ' ')), ErrorKind::invalid_argument,
               "mask: a text of 67108865 bytes; accepted: at most 67108864");
  EXPECT_ERROR(where(std::string(kMaxText + 1, ' ')), ErrorKind::invalid_argument,
               "mask: a text of 67108865 bytes; accepted: at most 67108864");
  EXPECT_EQ(refusal_of("all" + repeated(" | all", kMaxTerms)), "mask: more than 65536 terms");
  EXPECT_EQ(refusal_of("all" + repeated("&all", kMaxTerms)), "mask: more than 65536 terms");
  EXPECT_EQ(parse("all" + repeated("&all", kMaxTerms - 1)), all());
  EXPECT_EQ(refusal_of("where(1" + repeated("+1", 10000) + ")"),
            "mask: where: 4097 operations; accepted: at most 4096");
}

TEST(MaskLimits, TreesThatDouble) {
  EXPECT_ERROR(
      {
        Mask mask = window(1);
        for (int i = 0; i < kMaxDepth; ++i) mask = (mask & window(2 * i + 5)) | (mask & window(2 * i + 6));
      },
      ErrorKind::invalid_argument, "mask of 98302 terms; accepted: at most 65536");
  EXPECT_ERROR(where([](auto, auto, auto q, auto) {
                 Symbol value = q;
                 for (int i = 0; i < 1000; ++i) value = value + value;
                 return value;
               }),
               ErrorKind::invalid_argument, "where: 8191 operations; accepted: at most 4096");
}

TEST(MaskLimits, HeadsBeyondCounting) {
  const MaskExtent extent{.queries = 8, .keys = 8, .batch = 1 << 20, .heads = 1 << 20};
  EXPECT_ERROR(BoundMask(all(), extent), ErrorKind::invalid_argument,
               "mask: batch = 1048576 and heads = 1048576; accepted: at most 16777216 together");
  const MaskExtent many{.queries = 10000000, .keys = 10000000, .heads = 1 << 20};
  EXPECT_ERROR(BoundMask(parse("where(q - h > k)"), many), ErrorKind::unsupported,
               "mask: more than 3435 distinct masks of 10000000 queries and 10000000 keys");
}

TEST(MaskLimits, MoreBlocksThanCanBeDrawn) {
  const MaskExtent extent{.queries = 65536, .keys = 65536};
  EXPECT_ERROR(BoundMask(parse("random_blocks(1,30000,1)"), extent), ErrorKind::unsupported,
               "random_blocks(1,30000,1) draws 30000 blocks for each of 65536 row-blocks; accepted: at most 2048, so "
               "use larger blocks");
  EXPECT_ERROR(BoundMask(parse("bigbird(1,1,0,2049,1)"), extent), ErrorKind::unsupported,
               "bigbird(1,1,0,2049,1) draws 2049 blocks for each of 65536 row-blocks; accepted: at most 2048, so use "
               "larger blocks");
  EXPECT_EQ(BoundMask(parse("random_blocks(1,65536,1)"), extent).groups(), 1);  // all of them: one run a row-block
}

// Rows in front of the first key are in no table, and as many as there are queries.
TEST(MaskLimits, MoreRowBlocksThanATableCanHave) {
  std::uint8_t one = 1;
  const Mask mask = blocks(1, view_of(&one, DType::boolean, {1, 1}));
  EXPECT_ERROR(BoundMask(mask, {.queries = 1 << 25, .keys = 1}), ErrorKind::unsupported,
               mask.text() + " has 33554432 row-blocks; accepted: at most 16777216, so use larger blocks");
}

// An array without elements has any shape for nothing; one of a single column is stored as 64.
TEST(MaskLimits, ArraysOfAnyShape) {
  const auto of = [](DType dtype, Shape shape) { return view_of(nullptr, dtype, std::move(shape)); };
  EXPECT_ERROR(bits(of(DType::boolean, {kBillion, 0, 0})), ErrorKind::invalid_argument,
               "bits: the array is [1000000000, 0, 0]; accepted: at most 16777216 tables of at most 1073741824 a side");
  EXPECT_ERROR(bits(of(DType::boolean, {2 * kBillion, 0})), ErrorKind::invalid_argument,
               "bits: the array is [2000000000, 0]; accepted: at most 16777216 tables of at most 1073741824 a side");
  EXPECT_ERROR(document_ids(of(DType::i32, {kBillion, 0})), ErrorKind::invalid_argument,
               "document_ids: the array is [1000000000, 0]; accepted: at most 16777216 rows of at most 1073741824 a "
               "side");
  EXPECT_ERROR(blocks(64, of(DType::boolean, {kBillion, 0, 0})), ErrorKind::invalid_argument,
               "blocks: the array is [1000000000, 0, 0]; accepted: at most 16777216 tables of at most 1073741824 a "
               "side");
  EXPECT_NO_THROW(bits(of(DType::boolean, {kBillion, 0})));
  EXPECT_ERROR(bits(of(DType::boolean, {4, 4})), ErrorKind::invalid_argument,
               "bits: the array has no memory, its data is null; its shape is [4, 4]");
  EXPECT_ERROR(document_ids(of(DType::i32, {4})), ErrorKind::invalid_argument,
               "document_ids: the array has no memory, its data is null; its shape is [4]");
}

TEST(MaskLimits, ExtentsBeyondPlanning) {
  const BlockSize sizes[] = {{64, 64}};
  EXPECT_ERROR(measure(BoundMask(causal(), {.queries = kBillion, .keys = kBillion}), sizes), ErrorKind::unsupported,
               "a mask of 1000000000 queries and 1000000000 keys has 2.44e+14 blocks of 64 x 64; at most 1.72e+10 are "
               "planned");
  EXPECT_ERROR(measure(BoundMask(causal(), {.queries = 1, .keys = 1000 * kBillion}), sizes), ErrorKind::unsupported,
               "a mask of 1 queries and 1000000000000 keys; at most 1073741824 of each are planned");
}

}  // namespace
}  // namespace stof
