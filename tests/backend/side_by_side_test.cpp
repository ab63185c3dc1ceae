// SPDX-License-Identifier: Apache-2.0
// Chunks of prompts beside items that decode: which share of the multiprocessors each has, by what was measured.
#include "src/backend/cuda/attention/side_by_side.h"

#include <gtest/gtest.h>

#include "src/backend/cuda/attention/cost.h"
#include "src/backend/cuda/attention/decode_split.h"
#include "stof/device.h"

namespace stof::cuda {
namespace {

constexpr int kCores = 132;

// A step of the first part of bench/results/h200-side-by-side.txt: chunks of 32 heads under a causal mask, by row
// blocks of 128 rows, and the megabytes and tasks of the others.
std::optional<CoreShares> shares_of(const std::vector<int>& queries, const std::vector<int>& keys, double megabytes,
                                    double tasks) {
  static const Device device = open_device("cuda:h200");
  const StreamInstance instance = instance_named(stream_instances(), "stream_f16_d128_t1_p2_k2_s2_c1_g1", DType::f16);
  SpanForm form = span_form(instance, 1, costs_of(instance, device.caps), device.caps);
  form.slots = 0;  // as of plans for calls of these lengths
  for (int position = 0; position < 32768; ++position) form.rows.push_back({.begin = 0, .end = position + 1});
  LeadingWork leading(form, instance, std::pmr::get_default_resource());
  leading.queries.assign(queries.begin(), queries.end()), leading.keys.assign(keys.begin(), keys.end());
  leading.slices_of_item = 32, leading.key_step = 64;
  const DecodeForm sixteen = decode_forms(decode_instances()[1], 90)[0];
  return share_cores(leading,
                     {.bytes = megabytes * 1e6,
                      .begin_bytes = tasks * 1.18e5,
                      .core_bytes_us = decode_bytes_us(sixteen, 128, 2),
                      .alone_bytes_us = decode_bytes_us(sixteen, 128, 1)},
                     kCores);
}

constexpr CoreShares kHalves{66, 66};

TEST(SideBySide, HalvesTheDeviceWhereBothTakeLong) {
  EXPECT_EQ(shares_of({512}, {8192}, 624.7, 256), kHalves) << "252 us behind each other, 236";
  EXPECT_EQ(shares_of({1024}, {4096}, 745, 512), kHalves) << "278, 244";
  EXPECT_EQ(shares_of({2048}, {2048}, 865.1, 64), kHalves) << "277, 233";
  EXPECT_EQ(shares_of({256, 256}, {1024, 3000}, 688.1, 1024), kHalves) << "227, 186";
  EXPECT_EQ(shares_of({512}, {4096}, 389, 128), kHalves) << "162, 136";
}

TEST(SideBySide, LeavesFewMultiprocessorsForFewKeys) {
  const auto shares = shares_of({2048}, {2048}, 136.3, 64);
  ASSERT_TRUE(shares);
  EXPECT_EQ(shares->leading, 99) << "113 us behind each other, 86 so, 120 with half of them";
  EXPECT_EQ(shares->following, kCores - 99);
}

TEST(SideBySide, IsNotForOneThatTakesMuchLonger) {
  EXPECT_EQ(shares_of({56}, {456}, 1231.6, 1392), std::nullopt) << "304 us behind each other, 310";
  EXPECT_EQ(shares_of({2048}, {32768}, 10, 64), std::nullopt) << "no multiprocessor is to spare";
}

TEST(SideBySide, FollowsByACtaInEachPlace) {
  DecodeLoad load{.tasks = 256,
                  .tiles = 100,
                  .rows = 4,
                  .form = decode_forms(decode_instances()[1], 90)[0],
                  .readers = 128,
                  .head_dim = 128,
                  .alike = false,
                  .small_pages = false};
  const DecodeSplit split = split_beside(load, 132);
  EXPECT_EQ(split.ctas, 132);
  EXPECT_FALSE(split.apart) << "nothing is launched behind it";
  EXPECT_FALSE(split.alone) << "a multiprocessor holds two";
  load.tasks = 3, load.tiles = 2;
  EXPECT_EQ(split_beside(load, 132).ctas, 6) << "a tile each";
}

// The launch behind would be the other kernel's.
TEST(SideBySide, LeadsWithoutAGridThatAddsPartsUp) {
  const Device device = open_device("cuda:h200");
  const StreamInstance instance = instance_named(stream_instances(), "stream_f16_d128_t1_p2_k2_s2_c1_g1", DType::f16);
  SpanForm form = span_form(instance, 1, costs_of(instance, device.caps), device.caps);
  for (int position = 0; position < 32768; ++position) form.rows.push_back({.begin = 0, .end = position + 1});
  const std::vector<int> queries = {26}, keys = {32637};
  SpanItems items{.queries = queries, .keys = keys, .slices_of_item = 8};
  const SplitTime alone = time_split(form, items);
  EXPECT_TRUE(alone.split.summed);
  items.share = 0.5;
  const SplitTime half = time_split(form, items);
  EXPECT_FALSE(half.split.summed);
  EXPECT_GT(half.split.parts, 1) << "eight row blocks";
  EXPECT_GT(half.us, alone.us);
}

}  // namespace
}  // namespace stof::cuda
