// SPDX-License-Identifier: Apache-2.0
// Query heads that share keys as rows of one tile: which ones may, what is chosen, and that every instance says what
// the definition says for every number of heads, layout of tensors and batch.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "src/attention/alike_heads.h"
#include "src/backend/cuda/attention/cost.h"
#include "tests/attention/devices.h"
#include "tests/attention/every_plan.h"
#include "tests/attention/expect_attention.h"

namespace stof {
namespace {

std::int64_t alike(std::string_view mask, std::int64_t heads, std::int64_t kv_heads, std::int64_t batch = 1) {
  const BoundMask bound(parse(mask), {.queries = 20, .keys = 30, .batch = batch, .heads = heads});
  return alike_heads(bound, {.batch = batch, .heads = heads, .kv_heads = kv_heads, .queries = 20, .keys = 30});
}

TEST(AlikeHeads, ShareTheirKeyHead) {
  EXPECT_EQ(alike("causal", 32, 32), 1);
  EXPECT_EQ(alike("causal", 32, 8), 4);
  EXPECT_EQ(alike("causal", 28, 4), 7);
  EXPECT_EQ(alike("causal", 24, 4), 6);
  EXPECT_EQ(alike("causal", 24, 1), 24);
}

TEST(AlikeHeads, ShareTheirMask) {
  EXPECT_EQ(alike("heads(0: causal, *: all)", 8, 2), 1);
  EXPECT_EQ(alike("heads(0: causal, 1: causal, *: all)", 8, 2), 2);
  EXPECT_EQ(alike("heads(0: causal, 1: causal, 2: causal, 3: causal, *: all)", 16, 2), 4);
  EXPECT_EQ(alike("heads(0: causal, 1: causal, 2: causal, *: all)", 12, 2), 3);
  EXPECT_EQ(alike("heads(0: causal, 1: causal, 2: causal, *: all)", 10, 2), 1);
}

// What heads_to_stack says of 32 heads, 8 of them with keys.
int stacked(std::int64_t queries, std::int64_t alike_heads) {
  return cuda::heads_to_stack({.heads = 32, .kv_heads = 8, .queries = queries, .keys = 4096, .head_dim = 128},
                              alike_heads);
}

TEST(StackedHeads, AreThoseOfNeitherFewNorManyQueries) {
  EXPECT_EQ(stacked(4, 4), 1) << "decode_attention waits for keys alone";
  EXPECT_EQ(stacked(2, 8), 1);
  EXPECT_EQ(stacked(5, 4), 4);
  EXPECT_EQ(stacked(9, 8), 8);
  EXPECT_EQ(stacked(16, 32), 8);
  EXPECT_EQ(stacked(17, 4), 4);
  EXPECT_EQ(stacked(512, 4), 4);
  EXPECT_EQ(stacked(513, 4), 1);
  EXPECT_EQ(stacked(100, 1), 1);
  EXPECT_EQ(stacked(100, 32), 8) << "of which a tile has 8 positions";
  EXPECT_EQ(stacked(100, 7), 7) << "of which a tile has 9 positions, and a row of none";
  EXPECT_EQ(stacked(100, 12), 6);
  EXPECT_EQ(stacked(100, 11), 1) << "more than 8, and no divisor";
}

TEST(StackedHeads, AreChosenWhereTilesWouldBeEmpty) {
  const Device device = open_device("cuda:h200");
  const auto choice = [&](std::string_view mask, std::int64_t kv_heads, std::int64_t queries) {
    const AttentionShape shape{
        .heads = 32, .kv_heads = kv_heads, .queries = queries, .keys = 32768, .head_dim = 128, .dtype = DType::f16};
    return choose_attention(parse(mask), shape, device, "auto");
  };
  for (const std::int64_t queries : {17, 32}) {
    const Choice chosen = choice("causal", 8, queries);
    EXPECT_EQ(chosen.plan.stacked_heads, 4) << queries;
    EXPECT_EQ(chosen.plan.format.block_q % 16, 0) << queries;
    for (const AttentionPlan& other : chosen.considered) {
      if (other.stacked_heads > 1) continue;
      EXPECT_LT(chosen.plan.predicted_us, 0.8 * other.predicted_us) << queries << " " << other.instance;
    }
  }
  EXPECT_EQ(choice("sink(4) | causal & window(4096)", 8, 32).plan.stacked_heads, 4);
  const auto stacked_of = [](const Choice& of) {
    return std::ranges::max(of.considered, {}, &AttentionPlan::stacked_heads).stacked_heads;
  };
  EXPECT_EQ(stacked_of(choice("causal", 8, 200)), 4);
  EXPECT_EQ(stacked_of(choice("causal", 4, 200)), 8);
  EXPECT_EQ(stacked_of(choice("causal", 32, 32)), 1) << "no heads share keys";
  EXPECT_EQ(stacked_of(choice("causal", 8, 2048)), 1) << "tiles are full";
  EXPECT_EQ(stacked_of(choice("heads(0: window(4096), *: causal)", 8, 32)), 1) << "head 0 sees other keys";
}

// Of the rows that a task of decode_attention has, which splits keys better: bench/results/h200-decode-or-stacks.txt.
TEST(StackedHeads, OfFewRowsAreNotSplit) {
  const auto choice = [](std::int64_t batch, std::int64_t queries, std::int64_t keys) {
    const AttentionShape shape{.batch = batch,
                               .heads = 32,
                               .kv_heads = 8,
                               .queries = queries,
                               .keys = keys,
                               .head_dim = 64,
                               .dtype = DType::f16};
    return choose_attention(parse("causal"), shape, open_device("cuda:h200"), "auto");
  };
  const Choice short_one = choice(32, 16, 512);
  EXPECT_EQ(short_one.plan.kernel, "stream_attention") << "9.2 us in place of 13.6";
  EXPECT_EQ(short_one.plan.stacked_heads, 4);
  const Choice long_one = choice(1, 16, 32768);
  EXPECT_EQ(long_one.plan.kernel, "decode_attention");
  const auto is_stacked = [](const AttentionPlan& plan) { return plan.stacked_heads > 1; };
  EXPECT_TRUE(std::ranges::any_of(long_one.considered, is_stacked));
  for (const AttentionPlan& plan : long_one.considered)
    EXPECT_TRUE(!is_stacked(plan) || plan.splits == 1) << plan.instance;
  const Choice of_two_tasks = choice(1, 17, 32768);
  EXPECT_TRUE(std::ranges::any_of(of_two_tasks.considered,
                                  [](const auto& plan) { return plan.stacked_heads > 1 && plan.splits > 1; }));
}

// Of combs by class, 1,024 classes of 16 positions and keys: 712 us in place of 675
// (bench/results/h200-stacks-of-three-parts.txt). Of more rows they are.
TEST(StackedHeads, AreNotThoseOfClassesOfFewRows) {
  const auto most_stacked = [](std::int64_t kv_heads) {
    const AttentionShape shape{
        .heads = 40, .kv_heads = kv_heads, .queries = 16384, .keys = 16384, .head_dim = 128, .dtype = DType::f16};
    const Choice chosen = choose_attention(parse("strided(1024)"), shape, open_device("cuda:h200"), "auto");
    std::int64_t most = 1;
    for (const AttentionPlan& plan : chosen.considered)
      if (plan.residues > 1) most = std::max(most, plan.stacked_heads);
    return most;
  };
  EXPECT_EQ(most_stacked(10), 1) << "64 rows of four heads";
  EXPECT_EQ(most_stacked(5), 8) << "128 of eight";
}

// Two row blocks of a stack read the keys twice where the cache does not hold them in between: 60.3 us in place of 38.6
// (bench/results/f5ebd8b-h200-few-rows.txt).
TEST(StackedHeads, HaveOneRowBlockWhereKeysWouldBeReadAgain) {
  const AttentionShape shape{
      .batch = 16, .heads = 64, .kv_heads = 8, .queries = 10, .keys = 39730, .head_dim = 128, .dtype = DType::bf16};
  const Choice chosen =
      choose_attention(parse("causal & window(2000)"), shape, open_device("cuda:h200"), "stream_attention");
  EXPECT_EQ(chosen.plan.stacked_heads, 8);
  EXPECT_GE(chosen.plan.format.block_q, 10) << chosen.plan.instance;
}

struct Heads {
  std::int64_t heads, kv_heads, stacked;
};
constexpr Heads kHeads[] = {{4, 2, 2}, {6, 2, 3}, {8, 2, 4}, {16, 1, 8}, {7, 1, 7}, {10, 2, 5}, {12, 1, 6}, {11, 1, 1}};

const Batch kBatches[] = {{"equal", BatchForm::heads_first, {64, 64}},
                          {"one", BatchForm::rows_first, {37}},
                          {"ragged", BatchForm::rows_first, {100, 0, 65, 1, 16}},
                          {"packed", BatchForm::packed, {40, 5, 32, 0, 17}}};

using DeviceDimType = std::tuple<std::string, int, DType>;

// What both suites do with a device, a head dimension and a type.
struct Tried {
  DeviceDimType with;

  Problem make(const Heads& heads, const Batch& batch, std::int64_t more_keys, float softcap = 0) const {
    const auto& [device, head_dim, dtype] = with;
    return problem_of(batch, {.heads = heads.heads, .kv_heads = heads.kv_heads, .head_dim = head_dim, .dtype = dtype},
                      more_keys, softcap);
  }

  // Every plan that stacks heads: so many, and none where that is 1.
  void expect_definition(const Problem& problem, const Mask& mask, std::int64_t heads, const std::string& what) const {
    const Device device = open_device(std::get<0>(with));
    int stacked = 0;
    const auto check = [&](const std::string& plan) {
      if (plan.find("_stacked") == std::string::npos) return;
      ASSERT_EQ(difference_from_definition(problem, mask), "") << what << ", " << mask.text() << ", " << plan;
      EXPECT_NE(plan.find(fmt::format(" {} heads stacked", heads)), std::string::npos) << plan;
      ++stacked;
    };
    run_every_plan(device, plain_view(mask, problem.what().shape), problem, check, "stream_attention");
    if (const std::optional<View> by_residue = view_by_residue(mask, problem.what().shape))
      run_every_plan(device, *by_residue, problem, check, "stream_attention");
    EXPECT_EQ(stacked > 0, heads > 1) << what << ", " << mask.text();
  }
};

// A case for each of kBatches: under compute-sanitizer all of them in one took minutes.
class StackedRowsOfABatch : public testing::TestWithParam<std::tuple<DeviceDimType, int>> {
 protected:
  void SetUp() override { STOF_SKIP_WITHOUT(std::get<0>(tried_.with)); }

  Tried tried_{std::get<0>(GetParam())};
  const Batch& batch_ = kBatches[std::get<1>(GetParam())];
};

TEST_P(StackedRowsOfABatch, EqualTheDefinition) {
  for (const Heads& heads : kHeads)
    for (const char* text : {"causal", "all", "causal & window(16)", "!window(40) & causal"})
      for (const std::int64_t more_keys : {0, 93}) {
        const std::string what = fmt::format("{} of {} heads, {}", heads.heads, heads.kv_heads, batch_.name);
        tried_.expect_definition(tried_.make(heads, batch_, more_keys), parse(text), heads.stacked, what);
        if (HasFatalFailure()) return;
      }
}

class StackedRows : public testing::TestWithParam<DeviceDimType> {
 protected:
  void SetUp() override { STOF_SKIP_WITHOUT(std::get<0>(tried_.with)); }

  Tried tried_{GetParam()};
};

TEST_P(StackedRows, EqualTheDefinitionWhereKeysAreSplit) {
  for (const Heads& heads : {kHeads[0], kHeads[3], kHeads[5]})
    for (const char* text : {"causal", "sink(4) | causal & window(600)", "dilated(300,2) | global(3)"}) {
      tried_.expect_definition(tried_.make(heads, {"long", BatchForm::rows_first, {40}}, 1000), parse(text),
                               heads.stacked, "long");
      if (HasFatalFailure()) return;
    }
}

// More rows than a task of decode_attention has.
TEST_P(StackedRows, EqualTheDefinitionOfFewQueriesAndManyHeads) {
  const Heads& heads = kHeads[3];
  for (const Batch& batch :
       {Batch{"equal", BatchForm::heads_first, {16, 16}}, Batch{"ragged", BatchForm::rows_first, {16, 0, 9, 1, 12}},
        Batch{"packed", BatchForm::packed, {11, 3, 9}}, Batch{"more", BatchForm::rows_first, {20}}})
    for (const char* text : {"causal", "causal & window(16)", "dilated(300,2) | global(3)"})
      for (const std::int64_t more_keys : {0, 1000}) {
        tried_.expect_definition(tried_.make(heads, batch, more_keys), parse(text), heads.stacked, batch.name);
        if (HasFatalFailure()) return;
      }
}

// Masks of some heads are others: those that are alike are still stacked.
TEST_P(StackedRows, EqualTheDefinitionWhereMasksDifferByHead) {
  const char* const mask = "heads(0: causal, 1: causal, *: window(20,3))";
  tried_.expect_definition(tried_.make({8, 2, 2}, kBatches[2], 37), parse(mask), 2, "pairs");
  const char* const halves = "heads(0: causal, 1: causal, 2: causal, *: window(20,3))";
  tried_.expect_definition(tried_.make({12, 2, 3}, kBatches[2], 37), parse(halves), 3, "halves of a key head");
}

TEST_P(StackedRows, EqualTheDefinitionWhereScoresAreCapped) {
  for (const Batch& batch : {kBatches[1], kBatches[3]})
    for (const Heads& heads : {kHeads[2], kHeads[4]})
      tried_.expect_definition(tried_.make(heads, batch, 93, 6), parse("causal"), heads.stacked, batch.name);
}

// More stacks than a GPU works on at once.
TEST_P(StackedRows, EqualTheDefinitionOnManyRowBlocks) {
  Batch batch{"many", BatchForm::rows_first, {130}};
  while (batch.lengths.size() < 120) batch.lengths.push_back(std::array{70, 66, 0, 20, 130}[batch.lengths.size() % 5]);
  for (const Heads& heads : {kHeads[1], kHeads[2], kHeads[4]})
    tried_.expect_definition(tried_.make(heads, batch, 0), parse("causal"), heads.stacked, batch.name);
}

std::string text_of(const DeviceDimType& with) {
  return fmt::format("d{}_{}", std::get<1>(with), name_of(std::get<2>(with)));
}
std::string name_of_case(const testing::TestParamInfo<StackedRows::ParamType>& the) { return text_of(the.param); }
std::string name_of_batch_case(const testing::TestParamInfo<StackedRowsOfABatch::ParamType>& the) {
  const auto& [with, batch] = the.param;
  return fmt::format("{}_{}", text_of(with), kBatches[batch].name);
}

// The last of them with fewer columns than its instances.
auto on_cuda() {
  return testing::Combine(testing::Values("cuda"), testing::Values(64, 96, 128, 256, 72),
                          testing::Values(DType::f16, DType::bf16));
}
auto each_batch() { return testing::Range(0, static_cast<int>(std::size(kBatches))); }

INSTANTIATE_TEST_SUITE_P(Cuda, StackedRowsOfABatch, testing::Combine(on_cuda(), each_batch()), name_of_batch_case);
INSTANTIATE_TEST_SUITE_P(Cuda, StackedRows, on_cuda(), name_of_case);

}  // namespace
}  // namespace stof
