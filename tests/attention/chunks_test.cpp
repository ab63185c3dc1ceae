// SPDX-License-Identifier: Apache-2.0
// Chunks of prompts: more queries than decoding has, at the end of items that are much shorter than planned, over keys
// in rows and in pages.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "tests/attention/devices.h"
#include "tests/attention/expect_attention.h"

namespace stof {
namespace {

using ChunkCase = std::tuple<std::string, std::string, int, DType>;  // device, kernel, head_dim, storage

class Chunks : public testing::TestWithParam<ChunkCase> {
 protected:
  void SetUp() override { STOF_SKIP_WITHOUT(std::get<0>(GetParam())); }

  // per_key_head: query heads, of which plans may put the rows into one tile.
  static ProblemShape shape(std::int64_t queries, std::int64_t keys, std::int64_t per_key_head = 4) {
    const auto& [device, kernel, head_dim, dtype] = GetParam();
    return {.shape = {.batch = 4,
                      .heads = 2 * per_key_head,
                      .kv_heads = 2,
                      .queries = queries,
                      .keys = keys,
                      .head_dim = head_dim,
                      .dtype = dtype},
            .q_lengths = {},
            .kv_lengths = {}};
  }
  // The worst rows of every seventh row.
  static void expect_definition(const ProblemShape& what, const Mask& mask) {
    const auto& [name, kernel, head_dim, dtype] = GetParam();
    const Device device = open_device(name);
    const Attention attention(mask, what.shape, device, {.kernel = kernel});
    attention.prepare(what.shape.queries, 1);
    const Problem problem(what, 3);
    run_on(device, attention, problem);
    EXPECT_EQ(difference_from_definition(problem, mask, 7), "")
        << mask.text() << ", " << what.shape.queries << " queries, pages of " << what.page_size;
  }
};

// The same plan for items that begin anywhere, also inside a row block, and for ones without keys.
TEST_P(Chunks, EqualTheDefinitionWhereItemsAreShort) {
  for (const auto& [form, page_size] : {std::pair{BatchForm::heads_first, 0},
                                        {BatchForm::packed, 16},
                                        {BatchForm::rows_first, 64},
                                        {BatchForm::packed, 0}})
    for (const int queries : {24, 150}) {
      ProblemShape what = shape(queries, 1300, queries == 24 ? 7 : 4);
      what.form = form;
      what.page_size = page_size;
      what.q_lengths = {queries, queries / 2, 1, queries};
      what.kv_lengths = {1211, 700, 1, 803};
      expect_definition(what, parse("causal"));
      what.kv_lengths = {queries, 0, 1300, 333};
      expect_definition(what, parse("causal & (window(300) | sink(2))"));
    }
}

TEST_P(Chunks, EqualTheDefinitionWhereHeadsDifferAndScoresAreCapped) {
  ProblemShape what = shape(90, 1800);
  what.q_lengths = {90, 33, 90, 64};
  what.kv_lengths = {1777, 500, 90, 1024};
  for (const std::int64_t page_size : {0, 32}) {
    what.page_size = page_size;
    what.softcap = 0;
    expect_definition(what, parse("heads(0-2: causal, *: causal & window(200,3))"));
    what.softcap = 5;
    expect_definition(what, parse("causal"));
  }
}

// A plan of few long items splits their keys: parts of row blocks far apart share memory.
TEST_P(Chunks, EqualTheDefinitionWhereKeysAreSplit) {
  ProblemShape what = shape(40, 5000);
  what.shape.batch = 1, what.shape.kv_heads = 1;
  for (const int keys : {4975, 2444, 41})
    for (const std::int64_t page_size : {0, 128}) {
      what.page_size = page_size;
      what.q_lengths = {40};
      what.kv_lengths = {keys};
      expect_definition(what, parse("all"));
      expect_definition(what, parse("causal"));
    }
}

// The first rows stand in front of all keys and see none, those behind them see the first keys.
TEST_P(Chunks, EqualTheDefinitionWhereItemsHaveFewerKeysThanQueries) {
  for (const std::int64_t per_key_head : {1, 2})
    for (const std::int64_t page_size : {0, 16}) {
      ProblemShape what = shape(128, 1500, per_key_head);
      what.page_size = page_size;
      what.q_lengths = {64, 100, 128, 30};
      what.kv_lengths = {44, 80, 120, 12};
      for (const char* mask : {"causal & window(20)", "window(3,3)", "causal & (window(8) | sink(2))"})
        expect_definition(what, parse(mask));
    }
}

// Few keys a row, as bands take them at once.
class NarrowChunks : public Chunks {};

// Items that lie alike, and items of lengths of their own, which come with the launch; rows without keys; texts that
// are shorter than a page.
TEST_P(NarrowChunks, EqualTheDefinition) {
  const bool few = std::get<2>(GetParam()) > 128;  // keys that a band holds
  ProblemShape what = shape(130, 2100, 5);
  for (const auto& [q_lengths, kv_lengths] :
       {std::pair{std::vector{130, 20, 65, 130}, std::vector{2011, 700, 65, 1304}},
        {std::vector{130, 130, 130, 130}, std::vector{2100, 2100, 2100, 2100}},
        {std::vector{7, 0, 1, 64}, std::vector{7, 90, 0, 64}}}) {
    what.q_lengths = q_lengths, what.kv_lengths = kv_lengths;
    for (const auto& [form, page_size] : {std::pair{BatchForm::heads_first, 0},
                                          {BatchForm::packed, 0},
                                          {BatchForm::heads_first, 16},
                                          {BatchForm::rows_first, 64},
                                          {BatchForm::packed, 128}})
      for (const char* mask : few ? std::array{"causal & window(64)", "causal & window(20)", "window(20,40)"}
                                  : std::array{"causal & window(64)", "causal & window(128)", "window(60,127)"}) {
        what.form = form;
        what.page_size = page_size;
        expect_definition(what, parse(mask));
      }
  }
}

// Row blocks from an item's first row on, wherever that is, and as the layout has them: items of any lengths, ones with
// fewer keys than queries, with no keys and with no queries.
TEST_P(NarrowChunks, EqualTheDefinitionWhereverRowsOverPagesBegin) {
  std::mt19937 random(11);
  const auto below = [&](int count) { return std::uniform_int_distribution(0, count - 1)(random); };
  constexpr std::array kForms = {BatchForm::heads_first, BatchForm::packed, BatchForm::rows_first};
  int calls = 0;
  for (const auto& [mask, keys] : {std::pair{"causal", 128},
                                   {"all", 112},
                                   {"causal & (window(9) | sink(2))", 128},
                                   {"prefix(50) | causal", 100},
                                   {"documents([0,33,70,90]) & causal", 120},
                                   {"documents([0,40,41,100])", 120},
                                   {"causal & window(24)", 1300},
                                   {"window(20,21)", 1300},
                                   {"!window(15) & causal & window(60)", 900}})
    for (const std::int64_t page_size : {16, 64, 128}) {
      ProblemShape what = shape(70, keys, 3);
      what.shape.batch = 7;
      what.form = kForms[static_cast<std::size_t>(calls++ % 3)];
      what.page_size = page_size;
      for (int i = 0; i < 7; ++i) {
        what.q_lengths.push_back(i == 2 ? 0 : 1 + below(70));
        what.kv_lengths.push_back(i == 3 ? 0 : i == 4 ? below(what.q_lengths.back()) : 1 + below(keys));
      }
      expect_definition(what, parse(mask));
    }
}

// One length of all items, few of them: what a server asks again and again.
TEST_P(NarrowChunks, EqualTheDefinitionWhereItemsOverPagesAreAlike) {
  for (const auto& [queries, keys] : {std::pair{18, 73}, {37, 104}, {31, 127}, {64, 65}, {65, 128}, {20, 128}})
    for (const std::int64_t page_size : {16, 128}) {
      ProblemShape what = shape(queries, 128, 5);
      what.page_size = page_size;
      what.q_lengths = std::vector(4, queries), what.kv_lengths = std::vector(4, keys);
      expect_definition(what, parse("causal"));
    }
}

// Rows that have a prefix, rows that have none, and rows whose ranges begin and end anywhere.
TEST_P(Chunks, EqualTheDefinitionWhateverTheRowsSpans) {
  for (const std::int64_t page_size : {0, 64}) {
    ProblemShape what = shape(200, 1500, 3);
    what.page_size = page_size;
    what.q_lengths = {200, 77, 200, 129};
    what.kv_lengths = {1493, 1034, 205, 640};
    for (const char* mask :
         {"documents([0,300,333,400,1000]) & causal", "documents([0,301,1000])", "prefix(450) | causal",
          "window(90,35) | sink(200)", "global(260) & window(400)", "window(3,3)"})
      expect_definition(what, parse(mask));
  }
}

// Of more items than come with a launch; of heads that differ, of which each has row blocks of its own.
TEST_P(NarrowChunks, EqualTheDefinitionWhereItemsAreManyAndHeadsDiffer) {
  ProblemShape what = shape(70, 400, 3);
  what.shape.batch = 40;
  for (int i = 0; i < 40; ++i) {
    what.q_lengths.push_back(i % 5 == 0 ? 70 : i);
    what.kv_lengths.push_back(std::max(what.q_lengths.back(), (37 * i) % 401));
  }
  for (const auto& [form, page_size] :
       {std::pair{BatchForm::heads_first, 0}, {BatchForm::packed, 0}, {BatchForm::heads_first, 64}}) {
    what.form = form;
    what.page_size = page_size;
    expect_definition(what, parse("heads(0-1: causal & window(20), *: causal & window(64))"));
  }
}

std::string name_of_case(const testing::TestParamInfo<ChunkCase>& the) {
  return fmt::format("{}_d{}_{}", std::get<1>(the.param), std::get<2>(the.param), name_of(std::get<3>(the.param)));
}

INSTANTIATE_TEST_SUITE_P(Cpu, Chunks,
                         testing::Combine(testing::Values("cpu"), testing::Values("auto"), testing::Values(24),
                                          testing::Values(DType::f32)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Cuda, Chunks,
                         testing::Combine(testing::Values("cuda"), testing::Values("auto", "stream_attention"),
                                          testing::Values(64, 128, 256), testing::Values(DType::f16)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(CudaMma, Chunks,
                         testing::Combine(testing::Values("cuda"), testing::Values("mma_attention"),
                                          testing::Values(64, 100, 128), testing::Values(DType::f16)),
                         name_of_case);

INSTANTIATE_TEST_SUITE_P(Cpu, NarrowChunks,
                         testing::Combine(testing::Values("cpu"), testing::Values("auto"), testing::Values(24),
                                          testing::Values(DType::f32)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Cuda, NarrowChunks,
                         testing::Combine(testing::Values("cuda"),
                                          testing::Values("auto", "band_attention", "stream_attention"),
                                          testing::Values(64, 80, 128, 256), testing::Values(DType::f16)),
                         name_of_case);

}  // namespace
}  // namespace stof
