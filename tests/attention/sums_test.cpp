// SPDX-License-Identifier: Apache-2.0
// Masks with combs as sums of two results: which calls run so, and what comes of it.
#include <gtest/gtest.h>

#include <cmath>

#include "src/attention/planned.h"
#include "src/attention/run_plan.h"
#include "src/backend/even_items.h"
#include "src/backend/two_results.h"
#include "tests/attention/devices.h"
#include "tests/attention/expect_attention.h"

namespace stof {
namespace {

constexpr const char* kMasks[] = {"causal & (window(16) | strided(16))",
                                  "dilated(9,5) | window(7) | strided(20)",
                                  "heads(0: causal, *: window(3) | dilated(12,8))",
                                  "window(5) & causal | strided(12) & !window(40) & causal",
                                  "strided(9) | strided(4)",
                                  "window(2) | strided(700)"};

using DeviceDType = std::tuple<std::string, DType>;

class Sums : public testing::TestWithParam<DeviceDType> {
 protected:
  void SetUp() override { STOF_SKIP_WITHOUT(std::get<0>(GetParam())); }

  ProblemShape of(std::int64_t batch, std::int64_t queries, std::int64_t keys, std::int64_t head_dim = 64) const {
    return {.shape = {.batch = batch,
                      .heads = 4,
                      .kv_heads = 2,
                      .queries = queries,
                      .keys = keys,
                      .head_dim = head_dim,
                      .dtype = std::get<1>(GetParam())},
            .q_lengths = {},
            .kv_lengths = {}};
  }
  Device device() const { return open_with_two_threads(std::get<0>(GetParam())); }

  static void run_by(const Planned& planned, const Problem& problem, const Device& where) {
    const DeviceArguments there(problem.arguments(), where);
    const AttentionArguments& a = there.arguments();
    AttentionCall call = problem.call();
    call.q = a.q.data, call.k = a.k.data, call.v = a.v.data, call.out = a.out.data;
    if (call.lse != nullptr) call.lse = a.lse->as<float>();
    std::vector<AttentionItem> items = problem.items();
    for (AttentionItem& item : items) item.index = 0;
    call.items = items;
    problem.poison_outputs();
    run_plan(planned, call, where);
    there.copy_back();
  }

  // By every way to cut the mask, whatever that is predicted to take. Returns how many there are.
  int run_every_sum(const Problem& problem, const Mask& mask) const {
    const Device where = device();
    int sums = 0;
    for (const SumView& view : views_as_sum(mask, problem.what().shape)) {
      const std::optional<Choice> choice = choose_sum(view, problem.what().shape, where);
      if (!choice) ADD_FAILURE() << mask.text();
      if (!choice) return sums;
      const Planned planned = replan(mask, problem.what().shape, where, *choice);
      run_by(planned, problem, where);
      EXPECT_EQ(difference_from_definition(problem, mask), "")
          << mask.text() << " modulo " << choice->plan.residues << ", " << choice->plan.kernel << " and "
          << choice->plan.rest.front().kernel;
      ++sums;
    }
    return sums;
  }
};

TEST_P(Sums, EqualTheDefinition) {
  for (const char* text : kMasks) {
    const Mask mask = parse(text);
    ProblemShape equal = of(2, 160, 160), more_keys = of(1, 100, 333), uneven = of(1, 331, 331, 40);
    equal.form = BatchForm::rows_first;
    more_keys.row_padding = 8;
    uneven.softcap = 3.f, uneven.shape.capped = true;
    ProblemShape packed = of(3, 97, 97, 128);
    packed.form = BatchForm::packed;
    packed.q_lengths = packed.kv_lengths = {97, 97, 97};
    for (const ProblemShape& what : {equal, more_keys, uneven, packed})
      EXPECT_GE(run_every_sum(Problem(what, 11), mask), 1) << text;
  }
}

// Rows of which neither result has a key, or only one has.
TEST_P(Sums, OfRowsWithoutKeys) {
  const Mask mask = parse("window(5) & !window(2) & causal | strided(12) & !window(40) & causal");
  for (const std::int64_t keys : {90, 200}) EXPECT_EQ(run_every_sum(Problem(of(1, 90, keys), 3), mask), 1);
}

// A NaN in a value of either result, and a score that is one, reach the rows that see them, and a score no others.
// Tiles multiply the values that a row does not see by 0, which leaves a NaN what it is (docs/kernels/ragged.md).
TEST_P(Sums, KeepNaN) {
  const Mask mask = parse("window(2) | strided(16)");
  ProblemShape what = of(1, 64, 64);
  const Problem problem(what, 9);
  const AttentionItem& item = problem.items().front();
  problem.set(problem.v, item.v, 0, 20, 3, NAN);
  problem.set(problem.k, item.k, 1, 40, 5, NAN);
  const std::vector<SumView> views = views_as_sum(mask, what.shape);
  const Device where = device();
  const Planned planned = replan(mask, what.shape, where, choose_sum(views.front(), what.shape, where).value());
  run_by(planned, problem, where);
  const auto& [name, dtype] = GetParam();
  const bool by_tiles = name == "cuda" && dtype != DType::f32;
  for (std::int64_t head = 0; head < 4; ++head)
    for (std::int64_t row = 0; row < 64; ++row) {
      const auto sees = [&](std::int64_t key) { return std::abs(row - key) <= 2 || (row - key) % 16 == 0; };
      const bool by_value = head < 2 && sees(20), by_score = head >= 2 && sees(40);
      const bool must = by_value || by_score, may = must || (by_tiles && head < 2);
      EXPECT_TRUE(std::isnan(problem.get(problem.out, item.out, head, row, 3)) ? may : !must) << head << " " << row;
      EXPECT_EQ(std::isnan(problem.lse(item, head, row)), by_score) << head << " " << row;
    }
}

TEST(SumOperations, KeepNoSecondResultThatIsTooLarge) {
  AttentionShape shape{.batch = 8, .heads = 32, .kv_heads = 32, .queries = 16384, .keys = 16384, .head_dim = 64};
  shape.dtype = DType::f16;
  struct Limit {
    const char* device;
    std::int64_t fits, does_not;
    std::string why;
  };
  for (const auto& [name, fits, does_not, why] :
       {Limit{"cpu", 4, 8, "a second result would take 0.57 GB; at most 0.512 are kept"},
        Limit{"cuda:h200", 48, 64, "a second result would take 4.56 GB; at most 4 are kept"}}) {
    const Device where = open_device(name);
    shape.batch = fits;
    EXPECT_EQ(where.backend->sums->refuses(shape), std::nullopt) << name;
    shape.batch = std::int64_t{1} << 30;
    EXPECT_TRUE(where.backend->sums->refuses(shape)) << name;
    shape.batch = does_not;
    EXPECT_EQ(where.backend->sums->refuses(shape).value_or(""), why);
    const Choice choice = choose_attention(parse("window(64) | strided(32)"), shape, where, "auto");
    EXPECT_EQ(std::ranges::count(choice.refusals, Refused{"two plans, added", why}), 1) << name;
  }
}

// Elements of 16 bits at an address that no vector begins at, and a head dimension that no vector divides.
TEST_P(Sums, OfTensorsThatVectorsDoNotFit) {
  const Mask mask = parse(kMasks[0]);
  ProblemShape shifted = of(2, 64, 64);
  shifted.first.out = 1;
  for (const ProblemShape& what : {shifted, of(2, 64, 64, 61)}) EXPECT_EQ(run_every_sum(Problem(what, 5), mask), 1);
}

// A plan that adds two results gives what does not lie evenly to another plan.
TEST_P(Sums, ServeEveryCall) {
  const Mask mask = parse("window(64) | strided(32)");
  const ProblemShape planned = of(4, 2048, 2048);
  const Attention attention(mask, planned.shape, device());
  const bool row_by_row = GetParam() == DeviceDType("cuda", DType::f32);  // which gains nothing
  ASSERT_EQ(attention.plan().rest.size(), row_by_row ? 0u : 1u) << attention.plan().reason;
  ProblemShape fewer = planned, shorter = planned, uneven = planned, ragged = planned, more = planned,
               decoding = planned, packed = planned;
  shorter.q_lengths = shorter.kv_lengths = {1024, 1024, 1024, 1024};
  uneven.q_lengths = uneven.kv_lengths = {1000, 1000, 1000, 1000};
  packed.form = BatchForm::packed, packed.q_lengths = packed.kv_lengths = {2048, 2048, 2048, 2048};
  fewer.shape.batch = 1, fewer.q_lengths = fewer.kv_lengths = {};
  ragged.q_lengths = ragged.kv_lengths = {2048, 3, 0, 700};
  more.shape.batch = 5, more.shape.queries = more.shape.keys = 300;
  decoding.shape.queries = 1, decoding.kv_lengths = {2048, 1, 65, 900};
  for (const ProblemShape& what : {planned, fewer, shorter, uneven, ragged, more, decoding, packed}) {
    const Problem problem(what, 7);
    problem.poison_outputs();
    run_on(device(), attention, problem);
    EXPECT_EQ(difference_from_definition(problem, mask, 7), "")
        << what.shape.batch << " x " << what.shape.queries << " x " << what.shape.keys;
  }
}

std::string name_of_case(const testing::TestParamInfo<DeviceDType>& info) {
  return std::get<0>(info.param) + "_" + std::string(name_of(std::get<1>(info.param)));
}
INSTANTIATE_TEST_SUITE_P(Cpu, Sums, testing::Combine(testing::Values("cpu"), testing::Values(DType::f32, DType::f16)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Cuda, Sums,
                         testing::Combine(testing::Values("cuda"),
                                          testing::Values(DType::f16, DType::bf16, DType::f32)),
                         name_of_case);

TEST(TwoResults, LieApart) {
  std::vector<AttentionItem> items(2);
  items[0].queries = items[1].queries = 5;
  items[1].out = 1000, items[1].lse = 30;
  AttentionCall call;
  call.items = items, call.heads = 3, call.head_dim = 8;
  float lse[30], other_lse[30], other_out[240];
  const TwoResults results(call, {lse, other_lse, other_out});
  EXPECT_EQ(results.first.items[1].out, 1000);
  EXPECT_EQ(results.first.items[1].lse, 15);
  EXPECT_EQ(results.first.lse_strides.head, 5);
  EXPECT_EQ(results.second.items[1].out, 120);
  EXPECT_EQ(results.second.out_strides.head, 40);
  EXPECT_EQ(results.second.out_strides.row, 8);
}

TEST(EvenItems, AreAsFarApartAndAsLong) {
  std::vector<AttentionItem> items(3);
  for (std::size_t i = 0; i < 3; ++i) items[i].queries = 4, items[i].keys = 6, items[i].q = 100 * static_cast<int>(i);
  EXPECT_TRUE(items_lie_evenly(items));
  EXPECT_TRUE(items_lie_evenly(std::span(items).first(1)));
  EXPECT_TRUE(items_lie_evenly({}));
  items[2].q = 201;
  EXPECT_FALSE(items_lie_evenly(items));
  items[2].q = 200, items[1].keys = 5;
  EXPECT_FALSE(items_lie_evenly(items));
}

}  // namespace
}  // namespace stof
