// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>

#include "src/backend/cuda/attention/decode_few_keys.h"

namespace stof::cuda {
namespace {

FewKeysLoad load_of(std::int64_t texts, std::int64_t keys, std::int64_t head_dim = 128) {
  constexpr std::int64_t kHeads = 8;
  return {.tasks = texts * kHeads,
          .keys = keys,
          .head_dim = head_dim,
          .bytes = static_cast<double>(texts * keys * kHeads * head_dim * 4)};
}

// What takes least of clusters, rounds and waves.
TEST(FewKeys, AreSharedOutByHowManyThereAre) {
  const auto split = [](std::int64_t texts, std::int64_t keys, int arch = 90) {
    const FewKeysSplit chosen = split_few_keys(load_of(texts, keys), {.name = "", .cores = 132, .arch = arch});
    return std::array{chosen.ranks, chosen.stages, chosen.rounds};
  };
  EXPECT_EQ(split(1, 128), (std::array{1, 1, 1}));
  EXPECT_EQ(split(1, 256), (std::array{1, 2, 2}));
  EXPECT_EQ(split(1, 512), (std::array{4, 1, 1}));
  EXPECT_EQ(split(1, 1024), (std::array{4, 2, 2}));
  EXPECT_EQ(split(1, 2048), (std::array{8, 2, 2}));
  EXPECT_EQ(split(1, 4096), (std::array{8, 2, 4}));
  EXPECT_EQ(split(4, 1024), (std::array{2, 2, 4}));
  EXPECT_EQ(split(1, 1024, 80), (std::array{1, 2, 8}));
  EXPECT_EQ(split(1, 1024, 86), (std::array{1, 1, 8}));
  EXPECT_EQ(split(16, 1024), (std::array{1, 2, 8}));
}

// Groups, or sums where these need more.
TEST(FewKeys, HaveTheMemoryThatTheyNeed) {
  const DeviceCaps h200{.name = "", .cores = 132, .arch = 90}, rtx{.name = "", .cores = 128, .arch = 89};
  const auto memory = [&](const FewKeysLoad& load) {
    const FewKeysSplit split = split_few_keys(load, h200);
    return std::pair{split.warp_bytes, split.shared_bytes};
  };
  EXPECT_EQ(memory(load_of(1, 64)), (std::pair{64 * 128, 8 * 64 * 128 + 128 * (10 * 2 + 8 * 4)}));
  EXPECT_EQ(memory(load_of(1, 256)), (std::pair{2 * 64 * 128, 8 * 2 * 64 * 128 + 128 * (10 * 2 + 8 * 4)}));
  FewKeysLoad wide = load_of(1, 64, 256);
  wide.slabs = 2;
  EXPECT_EQ(memory(wide), (std::pair{16 * 260 * 4, 8 * 16 * 260 * 4 + 256 * (18 * 2 + 16 * 4)}));
  EXPECT_TRUE(fits_few_keys(256, 2, h200));
  EXPECT_TRUE(fits_few_keys(128, 1, rtx));
  EXPECT_FALSE(fits_few_keys(256, 1, rtx));
  EXPECT_EQ(most_shared_bytes(128, 1, rtx), 8 * 64 * 128 + 128 * (10 * 2 + 8 * 4));
}

// Of decode_attention's calls those of one query, few keys, and no more CTAs than run at once.
TEST(FewKeys, TakeTheCallsThatTheyAreSoonerFor) {
  const DeviceCaps h200{.name = "", .cores = 132, .arch = 90};
  const FewKeysCall taken{.items = 16, .heads = 32, .kv_heads = 8, .queries = 1, .keys = 256, .head_dim = 128};
  EXPECT_TRUE(split_few_keys(taken, h200).has_value());
  const auto takes = [&](auto change, const DeviceCaps& caps) {
    FewKeysCall call = taken;
    change(call);
    return split_few_keys(call, caps).has_value();
  };
  EXPECT_FALSE(takes([](auto& c) { c.queries = 2; }, h200));
  EXPECT_FALSE(takes([](auto& c) { c.trees = true; }, h200));
  EXPECT_TRUE(takes([](auto& c) { c.items = 1, c.keys = 2048; }, h200));
  EXPECT_FALSE(takes([](auto& c) { c.items = 1, c.keys = 2049; }, h200));
  EXPECT_FALSE(takes([](auto& c) { c.keys = 1024; }, h200)) << "eight rounds";
  EXPECT_FALSE(takes([](auto& c) { c.items = 64; }, h200)) << "four waves";
  EXPECT_TRUE(takes([](auto& c) { c.heads = 128; }, h200));
  EXPECT_FALSE(takes([](auto& c) { c.heads = 136; }, h200)) << "17 heads for a key head";
  EXPECT_TRUE(takes([](auto& c) { c.head_dim = 256, c.items = 1; }, h200));
  EXPECT_FALSE(takes([](auto& c) { c.head_dim = 256, c.items = 1; }, {.name = "", .cores = 128, .arch = 89}));
  EXPECT_FALSE(takes([](auto& c) { c.head_dim = 256, c.items = 1; }, {.name = "", .cores = 170, .arch = 120}));
}

}  // namespace
}  // namespace stof::cuda
