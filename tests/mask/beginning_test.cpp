// SPDX-License-Identifier: Apache-2.0
// What was made for a longer item, cut to the keys of a shorter one.
#include "src/mask/beginning.h"

#include <gtest/gtest.h>

#include "src/mask/bind.h"
#include "stof/inspect.h"
#include "tests/mask/random_mask.h"

namespace stof {
namespace {

// Of positions alone: the beginning is what the whole mask says of the first keys.
void expect_beginning(const Mask& mask, const MaskExtent& whole, std::int64_t keys) {
  MaskExtent extent = whole;
  extent.queries = extent.keys = keys;
  const Tensor all = dense_mask(mask, whole), first = dense_mask(beginning_of(mask, keys), extent);
  for (std::int64_t slice = 0; slice < first.size() / (keys * keys); ++slice)
    for (std::int64_t q = 0; q < keys; ++q)
      for (std::int64_t k = 0; k < keys; ++k)
        ASSERT_EQ(first.as<std::uint8_t>()[(slice * keys + q) * keys + k],
                  all.as<std::uint8_t>()[(slice * whole.keys + q) * whole.keys + k])
            << mask.text() << " of " << keys << ", slice " << slice << ", query " << q << ", key " << k;
}

TEST(Beginning, SaysWhatTheWholeMaskSaysOfTheFirstKeys) {
  int tried = 0;
  for (unsigned seed = 0; seed < 150; ++seed) {
    const std::int64_t length = 2 + seed * 37 % 150;
    const MaskExtent whole{.queries = length, .keys = length, .batch = 1 + seed % 2, .heads = 1 + seed % 3};
    const Mask mask = RandomMask(seed, whole, true).expression(2);
    if (depends_on_length(mask)) continue;
    for (const std::int64_t keys : {std::int64_t{1}, length / 2, length - 1, length})
      expect_beginning(mask, whole, keys);
    ++tried;
  }
  EXPECT_GT(tried, 30);
}

TEST(Beginning, CutsEveryTermThatIsMadeForALength) {
  Tensor ids(DType::i32, {2, 70}), table(DType::boolean, {3, 9, 9});
  for (std::int64_t i = 0; i < ids.size(); ++i) ids.as<std::int32_t>()[i] = static_cast<std::int32_t>(i * i / 300) - 1;
  for (std::int64_t i = 0; i < table.size(); ++i) table.as<std::uint8_t>()[i] = i * 7 % 5 < 2;
  std::vector<std::int64_t> parents;
  for (std::int64_t i = 0; i < 70; ++i) parents.push_back(i == 0 ? -1 : (i - 1) / 2);
  const MaskExtent whole{.queries = 70, .keys = 70, .batch = 2, .heads = 3};
  const Mask blocks_of_8 = blocks(8, table.view());
  for (const Mask& mask :
       {document_ids(ids.view()), blocks_of_8, tree(parents), documents({0, 12, 33, 69}),
        heads({{0, 1, tree(parents) | documents({0, 20})}}, !blocks_of_8),
        batch({{0, 0, document_ids(ids.view()) & causal()}}, documents({0, 1, 2}) | (window(3) & !tree(parents)))})
    for (const std::int64_t keys : {1, 8, 12, 13, 64, 69, 70}) expect_beginning(mask, whole, keys);
}

}  // namespace
}  // namespace stof
