// SPDX-License-Identifier: Apache-2.0
// Heads with masks of their own, which one launch may take together: by every plan against the definition, where heads
// share keys, items are ragged, row blocks are split, and some heads see nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/attention/devices.h"
#include "tests/attention/every_plan.h"
#include "tests/attention/expect_attention.h"

namespace stof {
namespace {

class MixedHeads : public testing::TestWithParam<std::tuple<std::string, int, DType>> {
 protected:
  void SetUp() override { STOF_SKIP_WITHOUT(std::get<0>(GetParam())); }

  // Six query heads for `kv_heads`; lengths of queries and keys, the longest first.
  static Problem make(BatchForm form, const std::vector<std::int32_t>& lengths, std::int64_t kv_heads,
                      std::int64_t more_keys = 0) {
    const auto& [device, head_dim, dtype] = GetParam();
    const auto length = std::int64_t{lengths.front()};
    ProblemShape what{.shape = {.batch = std::ssize(lengths),
                                .heads = 6,
                                .kv_heads = kv_heads,
                                .queries = length,
                                .keys = length + more_keys,
                                .head_dim = head_dim,
                                .dtype = dtype},
                      .form = form,
                      .row_padding = form == BatchForm::packed ? 8 : 0,
                      .q_lengths = lengths,
                      .kv_lengths = lengths};
    for (std::int32_t& keys : what.kv_lengths) keys += static_cast<std::int32_t>(more_keys);
    return Problem(what, 11);
  }

  // Compared are rows so far apart, from a different one on in each head.
  static void expect_every_plan(const Problem& problem, const char* text, std::int64_t rows_apart = 3) {
    const Mask mask = parse(text);
    const AttentionShape& s = problem.what().shape;
    const auto expect_view = [&](const View& view) {
      const Device device = open_device(std::get<0>(GetParam()));
      const int runs = run_every_plan(device, view, problem, [&](const std::string& plan) {
        ASSERT_EQ(difference_from_definition(problem, mask, rows_apart), "") << text << ", " << plan;
        ASSERT_TRUE(problem.padding_is_untouched()) << text << ", " << plan;
      });
      EXPECT_GE(runs, 1) << text;
    };
    expect_view(plain_view(mask, s));
    if (const std::optional<View> by_residue = view_by_residue(mask, s)) expect_view(*by_residue);
  }
};

// Runs of heads that begin and end inside a key head's, heads without keys, the same mask again later, a mask each.
constexpr const char* kMasks[] = {"heads(0: causal, 1-3: window(20,3), *: sink(3))",
                                  "heads(0: none, 2: none, 4: all, *: causal & window(70))",
                                  "heads(0: causal, 1: window(9), 2: prefix(40), 3: all, 4: strided(5), 5: none)",
                                  "heads(1: dilated(12,3), 2: strided(6), *: dilated(30,3) & causal)"};

TEST_P(MixedHeads, EqualTheDefinitionOnEveryBatch) {
  for (const char* text : kMasks)
    for (const auto& [kv_heads, more_keys] : {std::pair(6, 0), {3, 37}, {1, 0}}) {
      expect_every_plan(make(BatchForm::heads_first, {150, 150}, kv_heads, more_keys), text);
      expect_every_plan(make(BatchForm::rows_first, {200, 0, 65, 1}, kv_heads, more_keys), text);
      expect_every_plan(make(BatchForm::packed, {140, 5, 64, 0, 30}, kv_heads, more_keys), text);
      if (HasFatalFailure()) return;
    }
}

// Each item has lists of its own.
TEST_P(MixedHeads, EqualTheDefinitionWhereItemsDifferToo) {
  for (const std::int64_t kv_heads : {6, 2}) {
    const char* const text =
        "batch(1: causal, 2: heads(0-3: all, *: window(9)), *: heads(1: window(30), 2: none, *: causal))";
    expect_every_plan(make(BatchForm::rows_first, {150, 90, 150, 1}, kv_heads), text);
    expect_every_plan(make(BatchForm::packed, {140, 70, 0, 140}, kv_heads), text);
    if (HasFatalFailure()) return;
  }
}

// Parts of different heads' row blocks must not meet.
TEST_P(MixedHeads, EqualTheDefinitionWhereKeysAreSplit) {
  const Problem problem = make(BatchForm::heads_first, {1111}, 3);
  for (const char* text : {"heads(0: window(20) | global(3), 3: all, *: global([70,500]) | window(9))",
                           "heads(1-2: causal, *: sink(1000) | window(3))"}) {
    expect_every_plan(problem, text, 11);
    if (HasFatalFailure()) return;
  }
}

// More row blocks than a GPU works on at once, twice and many times: teams take several, of heavy and of light heads.
TEST_P(MixedHeads, EqualTheDefinitionOnManyRowBlocks) {
  for (const std::size_t items : {40, 160}) {
    std::vector<std::int32_t> lengths{130};
    while (lengths.size() < items) lengths.push_back(std::array{70, 66, 0, 20, 130}[lengths.size() % 5]);
    expect_every_plan(make(BatchForm::rows_first, lengths, 3), "heads(0: !window(64), 3-4: causal, *: window(30))");
    if (HasFatalFailure()) return;
  }
}

std::string name_of_case(const testing::TestParamInfo<MixedHeads::ParamType>& the) {
  return fmt::format("d{}_{}", std::get<1>(the.param), name_of(std::get<2>(the.param)));
}

INSTANTIATE_TEST_SUITE_P(Cpu, MixedHeads,
                         testing::Combine(testing::Values("cpu"), testing::Values(16), testing::Values(DType::f32)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Cuda, MixedHeads,
                         testing::Combine(testing::Values("cuda"), testing::Values(64, 128, 256),
                                          testing::Values(DType::f16, DType::bf16)),
                         name_of_case);

}  // namespace
}  // namespace stof
