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

using DeviceDimType = std::tuple<std::string, int, DType>;

// What both suites do with a device, a head dimension and a type.
struct Tried {
  DeviceDimType with;

  // Six query heads for `kv_heads`; lengths of queries and keys, the longest first.
  Problem make(BatchForm form, const std::vector<std::int32_t>& lengths, std::int64_t kv_heads,
               std::int64_t more_keys = 0) const {
    const auto& [device, head_dim, dtype] = with;
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
  void expect_every_plan(const Problem& problem, const char* text, std::int64_t rows_apart = 3) const {
    const Mask mask = parse(text);
    const AttentionShape& s = problem.what().shape;
    const auto expect_view = [&](const View& view) {
      const Device device = open_device(std::get<0>(with));
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

const Batch kBatches[] = {{"equal", BatchForm::heads_first, {150, 150}},
                          {"ragged", BatchForm::rows_first, {200, 0, 65, 1}},
                          {"packed", BatchForm::packed, {140, 5, 64, 0, 30}}};

// A case for each of kBatches: under compute-sanitizer all of them in one took minutes.
class MixedHeadsOfABatch : public testing::TestWithParam<std::tuple<DeviceDimType, int>> {
 protected:
  void SetUp() override { STOF_SKIP_WITHOUT(std::get<0>(tried_.with)); }

  Tried tried_{std::get<0>(GetParam())};
  const Batch& batch_ = kBatches[std::get<1>(GetParam())];
};

TEST_P(MixedHeadsOfABatch, EqualTheDefinition) {
  for (const char* text : kMasks)
    for (const auto& [kv_heads, more_keys] : {std::pair(6, 0), {3, 37}, {1, 0}}) {
      tried_.expect_every_plan(tried_.make(batch_.form, batch_.lengths, kv_heads, more_keys), text);
      if (HasFatalFailure()) return;
    }
}

class MixedHeads : public testing::TestWithParam<DeviceDimType> {
 protected:
  void SetUp() override { STOF_SKIP_WITHOUT(std::get<0>(tried_.with)); }

  Tried tried_{GetParam()};
};

// Each item has lists of its own.
TEST_P(MixedHeads, EqualTheDefinitionWhereItemsDifferToo) {
  for (const std::int64_t kv_heads : {6, 2}) {
    const char* const text =
        "batch(1: causal, 2: heads(0-3: all, *: window(9)), *: heads(1: window(30), 2: none, *: causal))";
    tried_.expect_every_plan(tried_.make(BatchForm::rows_first, {150, 90, 150, 1}, kv_heads), text);
    tried_.expect_every_plan(tried_.make(BatchForm::packed, {140, 70, 0, 140}, kv_heads), text);
    if (HasFatalFailure()) return;
  }
}

// Parts of different heads' row blocks must not meet.
TEST_P(MixedHeads, EqualTheDefinitionWhereKeysAreSplit) {
  const Problem problem = tried_.make(BatchForm::heads_first, {1111}, 3);
  for (const char* text : {"heads(0: window(20) | global(3), 3: all, *: global([70,500]) | window(9))",
                           "heads(1-2: causal, *: sink(1000) | window(3))"}) {
    tried_.expect_every_plan(problem, text, 11);
    if (HasFatalFailure()) return;
  }
}

// More row blocks than a GPU works on at once, twice and many times: teams take several, of heavy and of light heads.
TEST_P(MixedHeads, EqualTheDefinitionOnManyRowBlocks) {
  for (const std::size_t items : {40u, 160u}) {
    std::vector<std::int32_t> lengths{130};
    while (lengths.size() < items) lengths.push_back(std::array{70, 66, 0, 20, 130}[lengths.size() % 5]);
    tried_.expect_every_plan(tried_.make(BatchForm::rows_first, lengths, 3),
                             "heads(0: !window(64), 3-4: causal, *: window(30))");
    if (HasFatalFailure()) return;
  }
}

// The same of items with masks of their own, which one launch takes where each has rows.
TEST_P(MixedHeads, EqualTheDefinitionOnManyRowBlocksOfItemsThatDiffer) {
  const char* const text = "batch(0-3: causal, 4: none, 5-30: heads(0: all, *: window(9)), *: window(30) | sink(2))";
  for (const auto& [items, form] :
       {std::pair(40u, BatchForm::rows_first), {40u, BatchForm::packed}, {160u, BatchForm::packed}}) {
    std::vector<std::int32_t> lengths{130};
    while (lengths.size() < items) lengths.push_back(std::array{70, 66, 1, 20, 130}[lengths.size() % 5]);
    tried_.expect_every_plan(tried_.make(form, lengths, 3), text);
    if (HasFatalFailure()) return;
  }
}

std::string text_of(const DeviceDimType& with) {
  return fmt::format("d{}_{}", std::get<1>(with), name_of(std::get<2>(with)));
}
std::string name_of_case(const testing::TestParamInfo<MixedHeads::ParamType>& the) { return text_of(the.param); }
std::string name_of_batch_case(const testing::TestParamInfo<MixedHeadsOfABatch::ParamType>& the) {
  const auto& [with, batch] = the.param;
  return fmt::format("{}_{}", text_of(with), kBatches[batch].name);
}

auto on_cpu() { return testing::Combine(testing::Values("cpu"), testing::Values(16), testing::Values(DType::f32)); }
auto on_cuda() {
  return testing::Combine(testing::Values("cuda"), testing::Values(64, 128, 256),
                          testing::Values(DType::f16, DType::bf16));
}
auto each_batch() { return testing::Range(0, static_cast<int>(std::size(kBatches))); }

INSTANTIATE_TEST_SUITE_P(Cpu, MixedHeadsOfABatch, testing::Combine(on_cpu(), each_batch()), name_of_batch_case);
INSTANTIATE_TEST_SUITE_P(Cuda, MixedHeadsOfABatch, testing::Combine(on_cuda(), each_batch()), name_of_batch_case);
INSTANTIATE_TEST_SUITE_P(Cpu, MixedHeads, on_cpu(), name_of_case);
INSTANTIATE_TEST_SUITE_P(Cuda, MixedHeads, on_cuda(), name_of_case);

}  // namespace
}  // namespace stof
