// SPDX-License-Identifier: Apache-2.0
// Scores that grow along the keys, fall, jump or are not finite, in all rows or in some of a warp's: kernels that keep
// a maximum from their first keys must notice, by every plan, against the definition.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "src/backend/cuda/attention/instances.h"
#include "tests/attention/devices.h"
#include "tests/attention/every_plan.h"
#include "tests/attention/expect_attention.h"

namespace stof {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What is added to a score: of_row * of_key, beside standard normal numbers.
struct Scores {
  const char* name;
  float (*of_row)(std::int64_t row);
  float (*of_key)(std::int64_t key);
};

float one(std::int64_t) { return 1.f; }
float in_one_warp(std::int64_t row) { return row / 16 % 4 == 1 ? 1.f : 0.f; }
float in_every_other_tile(std::int64_t row) { return row / 64 % 2 == 1 ? 1.f : 0.f; }
float in_single_rows(std::int64_t row) { return row % 50 == 7 ? 1.f : 0.f; }
float by_tile(std::int64_t key) { return static_cast<float>(key / 64); }

const Scores kScores[] = {
    {"rising", one, [](std::int64_t key) { return 16.f * by_tile(key); }},
    {"rising in a warp", in_one_warp, [](std::int64_t key) { return 16.f * by_tile(key); }},
    {"rising in rows", in_single_rows, [](std::int64_t key) { return 16.f * by_tile(key); }},
    {"rising slowly", one, [](std::int64_t key) { return 5.f * by_tile(key); }},
    {"one high key", in_one_warp, [](std::int64_t key) { return key == 170 ? 300.f : 0.f; }},
    {"falling", one, [](std::int64_t key) { return -16.f * by_tile(key); }},
    {"far below 0", one, [](std::int64_t) { return -300.f; }},
};

class UnevenScores : public testing::TestWithParam<std::tuple<std::string, int, DType>> {
 protected:
  void SetUp() override { STOF_SKIP_WITHOUT(std::get<0>(GetParam())); }

  static Problem make(std::vector<std::int32_t> q_lengths, std::vector<std::int32_t> kv_lengths, float softcap = 0) {
    const auto& [device, head_dim, dtype] = GetParam();
    return Problem({.shape = {.batch = std::ssize(q_lengths),
                              .heads = 2,
                              .kv_heads = 1,
                              .queries = q_lengths.front(),
                              .keys = kv_lengths.front(),
                              .head_dim = head_dim,
                              .dtype = dtype,
                              .capped = softcap > 0},
                    .form = BatchForm::rows_first,
                    .q_lengths = q_lengths,
                    .kv_lengths = kv_lengths,
                    .softcap = softcap},
                   9);
  }

  // The first column of q and k carries the added scores.
  static void add(const Scores& scores, const Problem& problem) {
    const AttentionShape& s = problem.what().shape;
    const float per_scale = std::sqrt(static_cast<float>(s.head_dim));
    for (const AttentionItem& item : problem.items()) {
      for (std::int64_t head = 0; head < s.heads; ++head)
        for (std::int64_t row = 0; row < item.queries; ++row)
          problem.set(problem.q, item.q, head, row, 0, per_scale * scores.of_row(row));
      for (std::int64_t key = 0; key < item.keys; ++key) problem.set(problem.k, item.k, 0, key, 0, scores.of_key(key));
    }
  }

  static bool has_stream() {
    const auto& [name, head_dim, dtype] = GetParam();
    return name == "cuda" && is_written_for(open_device(name), "stream_attention");
  }

  static int run(const Problem& problem, const Mask& mask, const std::function<void(const std::string& plan)>& check) {
    const Device device = open_device(std::get<0>(GetParam()));
    return run_every_plan(device, plain_view(mask, problem.what().shape), problem, check);
  }

  static void expect_definition(const Problem& problem, const Mask& mask) {
    for (const Scores& scores : kScores) {
      add(scores, problem);
      const int runs = run(problem, mask, [&](const std::string& plan) {
        ASSERT_EQ(difference_from_definition(problem, mask), "") << scores.name << ", " << mask.text() << ", " << plan;
      });
      EXPECT_GE(runs, 2);
      if (HasFatalFailure()) return;
    }
  }
};

// Rows without a key at first.
TEST_P(UnevenScores, EqualTheDefinition) { expect_definition(make({130}, {390}), where("k >= 3 * q - 840")); }

TEST_P(UnevenScores, OfRaggedItemsEqualTheDefinition) {
  expect_definition(make({200, 0, 65, 1}, {230, 7, 95, 31}), causal());
}

// Of many steps, which are split.
TEST_P(UnevenScores, OfLongRowsEqualTheDefinition) {
  expect_definition(make({70}, {1111}), where("(q - k) % 3 == 0 | k > 500"));
}

// The last step has a tile that ends behind the last key and that only every other 64 rows see: those are late, since
// their scores rise, and must not be the ones that keep what is behind the end from the others.
TEST_P(UnevenScores, OfRowsThatShareStepsEqualTheDefinition) {
  const Problem problem = make({384, 330, 321}, {384, 330, 321});
  const Mask mask = where("k <= q & (q - k) % 3 != 1");
  add({"rising in every other tile", in_every_other_tile, [](std::int64_t key) { return 16.f * by_tile(key); }},
      problem);
  int of_stream = 0;
  const int runs = run(problem, mask, [&](const std::string& plan) {
    of_stream += plan.starts_with("stream_attention");
    ASSERT_EQ(difference_from_definition(problem, mask), "") << plan;
  });
  EXPECT_GE(runs, 2);
  EXPECT_EQ(of_stream > 0, has_stream());
}

TEST_P(UnevenScores, OfFewStepsEqualTheDefinition) { expect_definition(make({33}, {200}), causal()); }

// Capped where they are more than twice the cap as where they are next to 0.
TEST_P(UnevenScores, ThatAreCappedEqualTheDefinition) {
  for (const float softcap : {30.f, 50.f}) {
    expect_definition(make({130}, {390}, softcap), where("k >= 3 * q - 840"));
    if (HasFatalFailure()) return;
    expect_definition(make({200, 0, 65, 1}, {230, 7, 95, 31}, softcap), causal());
    if (HasFatalFailure()) return;
    expect_definition(make({70}, {1111}, softcap), where("(q - k) % 3 == 0 | k > 500"));
  }
}

// Of the kernel that trusts its first maxima, too: a forbidden score is none, whatever the key.
TEST_P(UnevenScores, ScoresThatAreNotFiniteReachExactlyTheRowsThatSeeThem) {
  if (std::get<0>(GetParam()) == "cuda" && !has_stream()) GTEST_SKIP() << "no plan of the kernel here";
  const Problem problem = make({150}, {150});
  const Mask mask = window(70);
  int checked = 0;
  for (const float value : {kNan, kInfinity})
    for (const std::int64_t key : {0, 64, 100, 149}) {
      const float before = problem.get(problem.k, 0, 0, key, 3);
      problem.set(problem.k, 0, 0, key, 3, value);
      run(problem, mask, [&](const std::string& plan) {
        if (std::get<0>(GetParam()) == "cuda" && !plan.starts_with("stream_attention")) return;
        ++checked;
        for (std::int64_t row = 0; row < 150; ++row) {
          // -inf is a score as good as none.
          const bool sees =
              std::abs(row - key) <= 70 && (std::isnan(value) || problem.get(problem.q, 0, 1, row, 3) > 0);
          ASSERT_EQ(std::isnan(problem.get(problem.out, 0, 1, row, 1)), sees)
              << value << " in key " << key << ", row " << row << ", " << plan;
        }
      });
      if (HasFatalFailure()) return;
      problem.set(problem.k, 0, 0, key, 3, before);
    }
  EXPECT_GE(checked, 8);  // values and keys
}

std::set<int> head_dims() {
  std::set<int> all{72, 120};  // between instances
  for (const cuda::StreamInstance& instance : cuda::stream_instances()) all.insert(instance.head_dim);
  return all;
}

std::string name_of_case(const testing::TestParamInfo<UnevenScores::ParamType>& the) {
  return fmt::format("d{}_{}", std::get<1>(the.param), name_of(std::get<2>(the.param)));
}

INSTANTIATE_TEST_SUITE_P(Cpu, UnevenScores,
                         testing::Combine(testing::Values("cpu"), testing::Values(24),
                                          testing::Values(DType::f16, DType::bf16)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Cuda, UnevenScores,
                         testing::Combine(testing::Values("cuda"), testing::ValuesIn(head_dims()),
                                          testing::Values(DType::f16, DType::bf16)),
                         name_of_case);

}  // namespace
}  // namespace stof
