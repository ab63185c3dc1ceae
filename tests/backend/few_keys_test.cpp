// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/few_keys.h"

#include <gtest/gtest.h>

#include <array>

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

}  // namespace
}  // namespace stof::cuda
