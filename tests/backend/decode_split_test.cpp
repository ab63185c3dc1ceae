// SPDX-License-Identifier: Apache-2.0
// How decode launches are shared out: evenly where tasks are alike and that leaves few multiprocessors without work.
#include "src/backend/cuda/attention/decode_split.h"

#include <gtest/gtest.h>

namespace stof::cuda {
namespace {

constexpr DecodeDevice kH200{.cores = 132, .ctas = 2, .overlaps = true};

DecodeLoad load(std::int64_t tasks, std::int64_t tiles, int rows = 4) {
  const std::span<const DecodeForm> forms = decode_forms(decode_instances()[1], 90);
  return {.tasks = tasks,
          .tiles = tiles,
          .rows = rows,
          .form = forms[form_for(forms, rows)],
          .readers = readers_of(forms[form_for(forms, rows)], decode_instances()[1]),
          .head_dim = 128,
          .alike = true,
          .small_pages = false};
}

TEST(DecodeForms, HaveRoomForTheRowsOfATask) {
  for (const DecodeInstance& instance : decode_instances())
    for (const int arch : {80, 90, 100}) {
      const std::span<const DecodeForm> forms = decode_forms(instance, arch);
      for (const int rows : {1, 16, 17, 32, 33, 64}) EXPECT_GE(forms[form_for(forms, rows)].rows, rows) << arch;
      EXPECT_EQ(form_for(forms, 16), 0);
      EXPECT_EQ(form_for(forms, 1000), forms.size() - 1);  // in several tasks
      EXPECT_EQ(forms.back().of_warpgroups, arch == 90);
      EXPECT_EQ(unit_of(forms.front(), instance, DType::f16), name_of(instance, DType::f16));
    }
}

TEST(DecodeSplit, GivesEachTaskAsManyCtas) {
  for (const std::int64_t tasks : {2, 8, 32, 64})
    for (const std::int64_t tiles : {200, 2048}) {
      const DecodeSplit split = split_decode(load(tasks, tiles), kH200);
      EXPECT_EQ(split.ctas, 132 / tasks * tasks) << tasks;
      EXPECT_EQ(split.start, 0);
      EXPECT_TRUE(split.alone);
    }
}

TEST(DecodeSplit, GivesEachCtaAsManyTasks) {
  for (const std::int64_t tasks : {128, 256, 512}) {
    const DecodeSplit split = split_decode(load(tasks, 100), kH200);
    EXPECT_EQ(split.ctas, 128) << tasks;
    EXPECT_FALSE(split.apart);
  }
}

TEST(DecodeSplit, CutsInProportionWhereThatWouldLeaveManyWithoutWork) {
  for (const std::int64_t tasks : {50, 90, 160}) {
    const DecodeSplit split = split_decode(load(tasks, 100), kH200);
    EXPECT_EQ(split.ctas, 132) << tasks;
    EXPECT_GT(split.start, 0);
  }
  DecodeLoad uneven = load(8, 100);
  uneven.alike = false;
  EXPECT_GT(split_decode(uneven, kH200).start, 0);
}

TEST(DecodeSplit, LeavesShortTasksWhole) {
  for (const std::int64_t tasks : {40, 64, 100}) {
    const DecodeSplit split = split_decode(load(tasks, 3), kH200);
    EXPECT_EQ(split.ctas, tasks);
    EXPECT_FALSE(split.apart);
  }
  EXPECT_EQ(split_decode(load(1, 1), kH200).ctas, 1);
}

TEST(DecodeSplit, LetsTwoShortTasksShareAMultiprocessor) {
  for (const std::int64_t tasks : {133, 192, 264}) {
    const DecodeSplit split = split_decode(load(tasks, 3), kH200);
    EXPECT_EQ(split.ctas, tasks);
    EXPECT_EQ(split.start, 0);
    EXPECT_FALSE(split.alone);
    EXPECT_FALSE(split.apart);
  }
  EXPECT_EQ(split_decode(load(192, 100), kH200).ctas, 132) << "longer than the L2 keeps";
  EXPECT_LE(split_decode(load(265, 4), kH200).ctas, 132) << "no room for two of each";
  const DecodeDevice of_one{.cores = 132, .ctas = 1, .overlaps = true};
  EXPECT_LE(split_decode(load(192, 3, 64), of_one).ctas, 132) << "that has room for one";
  EXPECT_FALSE(split_decode(load(128, 1), kH200).alone) << "the next launch begins beside";
  EXPECT_TRUE(split_decode(load(128, 8), kH200).alone);
}

TEST(DecodeSplit, HasNoMoreCtasThanTiles) {
  for (const bool alike : {false, true})
    for (const std::int64_t tasks : {1, 3, 7, 40})
      for (const std::int64_t tiles : {1, 2, 5, 20}) {
        DecodeLoad some = load(tasks, tiles, 64);
        some.alike = alike;
        const DecodeSplit split = split_decode(some, kH200);
        EXPECT_GE(split.ctas, 1);
        EXPECT_LE(split.ctas, tasks * tiles);
        EXPECT_LE(split.ctas, 132);
      }
}

TEST(DecodeSplit, AddsManyRowsApart) {
  EXPECT_TRUE(split_decode(load(8, 128, 64), kH200).apart);
  EXPECT_TRUE(split_decode(load(1, 512, 8), kH200).apart);
  EXPECT_FALSE(split_decode(load(160, 50, 4), kH200).apart);  // each CTA has parts of others than its neighbours
  const DecodeDevice a100{.cores = 108, .ctas = 1, .overlaps = false};
  EXPECT_FALSE(split_decode(load(8, 128, 4), a100).apart);  // where a launch costs more
}

TEST(DecodeSplit, TakesFewerPartsWhereTheyAreAddedUpApart) {
  const DecodeSplit few = split_decode(load(1, 129, 48), kH200), many = split_decode(load(1, 5000, 48), kH200);
  EXPECT_TRUE(few.apart);
  EXPECT_EQ(few.ctas, 43) << "three tiles each";
  EXPECT_TRUE(many.apart);
  EXPECT_EQ(many.ctas, 132) << "they come from memory";
}

TEST(DecodeSplit, AsksForSmallPagesByMoreCtas) {
  DecodeLoad paged = load(160, 100);
  paged.small_pages = true;
  const DecodeSplit split = split_decode(paged, kH200);
  EXPECT_EQ(split.ctas, 264);
  EXPECT_FALSE(split.alone);
}

}  // namespace
}  // namespace stof::cuda
