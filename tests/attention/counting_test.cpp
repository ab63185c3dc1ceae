// SPDX-License-Identifier: Apache-2.0
// Queries of 0 weigh every allowed key alike. With one-hot values the output counts keys: out times the number of
// allowed keys is, per column, how many allowed keys have that column, exactly. Every kernel, tile and mask term.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/attention/devices.h"
#include "tests/attention/every_plan.h"

namespace stof {
namespace {

constexpr std::int64_t kLength = 180, kHeads = 2, kHeadDim = 16;  // 180 = 12 * 15, for natten

struct Term {
  std::string name;
  Mask mask;
};

Mask bits_of_parity() {
  Tensor table(DType::boolean, {kLength, kLength});
  for (std::int64_t i = 0; i < table.size(); ++i) table.as<bool>()[i] = i % 7 < 3 || i % 11 == 0;
  return bits(table.view());
}

Mask block_table() {
  const std::int64_t cells = (kLength + 23) / 24;
  Tensor table(DType::boolean, {kHeads, cells, cells});
  for (std::int64_t i = 0; i < table.size(); ++i) table.as<bool>()[i] = i % 5 < 2;
  return blocks(24, table.view());
}

Mask ids() {
  Tensor table(DType::i32, {kLength});
  for (std::int64_t i = 0; i < kLength; ++i)
    table.as<std::int32_t>()[i] = static_cast<std::int32_t>(i / 50) - (i > 170);
  return document_ids(table.view());
}

Mask chain() {
  std::vector<std::int64_t> parents(kLength);
  for (std::int64_t i = 0; i < kLength; ++i) parents[static_cast<std::size_t>(i)] = i == 0 ? -1 : (i - 1) / 2;
  return tree(parents);
}

std::vector<Term> terms() {
  std::vector<Term> terms;
  for (const char* text : {"all",
                           "none",
                           "causal",
                           "window(9)",
                           "window(40,3)",
                           "dilated(12,3)",
                           "strided(7)",
                           "global(5)",
                           "global([3,77,150])",
                           "sink(4)",
                           "prefix(70)",
                           "documents([0,31,100])",
                           "segments([[0,90,20,50,\"full\"],[60,180,64,180,\"causal\"]])",
                           "random_blocks(16,3,5)",
                           "natten(12,15,5,7)",
                           "where((q * 3 + k) % 5 < 2)",
                           "heads(0: causal, *: window(20))",
                           "longformer(8,3)",
                           "bigbird(16,3,2,2,1)",
                           "!(causal | window(30))",
                           "causal & strided(4) | sink(2)"})
    terms.push_back({text, parse(text)});
  terms.push_back({"bits", bits_of_parity()});
  terms.push_back({"blocks", block_table()});
  terms.push_back({"document_ids", ids()});
  terms.push_back({"tree", chain()});
  return terms;
}

// v[j] = one-hot of (j / divisor) mod head_dim
void set_values(const Problem& problem, std::int64_t divisor) {
  const AttentionItem& item = problem.items().front();
  for (std::int64_t head = 0; head < kHeads; ++head)
    for (std::int64_t j = 0; j < kLength; ++j)
      for (std::int64_t c = 0; c < kHeadDim; ++c)
        problem.set(problem.v, item.v, head, j, c, (j / divisor) % kHeadDim == c ? 1.f : 0.f);
}

void expect_counts(const Problem& problem, const BoundMask& mask, std::int64_t divisor, const std::string& what) {
  const AttentionItem& item = problem.items().front();
  for (std::int64_t head = 0; head < kHeads; ++head)
    for (std::int64_t row = 0; row < kLength; ++row) {
      std::vector<int> expected(kHeadDim);
      for (std::int64_t j = 0; j < kLength; ++j)
        if (mask.allows(mask.group_of(0, head), row, j)) ++expected[static_cast<std::size_t>((j / divisor) % kHeadDim)];
      const int keys = std::accumulate(expected.begin(), expected.end(), 0);
      const double lse = double{problem.lse(item, head, row)};
      if (keys == 0) ASSERT_EQ(lse, -INFINITY) << what << " head " << head << " row " << row;
      else ASSERT_NEAR(lse, std::log(keys), 1e-5) << what << " head " << head << " row " << row;
      for (std::int64_t c = 0; c < kHeadDim; ++c) {
        const double counted = double{problem.get(problem.out, item.out, head, row, c)} * keys;
        ASSERT_EQ(std::round(counted), expected[static_cast<std::size_t>(c)])
            << what << " head " << head << " row " << row << " column " << c;
        ASSERT_NEAR(counted, std::round(counted), 0.1) << what;
      }
    }
}

class Counting : public testing::TestWithParam<std::tuple<std::string, DType>> {};

TEST_P(Counting, EveryKernelTileAndTerm) {
  const auto& [name, dtype] = GetParam();
  STOF_SKIP_WITHOUT(name);
  const Device device = open_device(name);
  const AttentionShape shape{
      .heads = kHeads, .kv_heads = kHeads, .queries = kLength, .keys = kLength, .head_dim = kHeadDim, .dtype = dtype};
  const Problem problem({.shape = shape, .form = BatchForm::heads_first, .q_lengths = {}, .kv_lengths = {}}, 3);
  const AttentionItem& item = problem.items().front();
  for (std::int64_t i = 0; i < kHeads * kLength * kHeadDim; ++i)
    problem.set(problem.q, item.q, i / kLength / kHeadDim, i / kHeadDim % kLength, i % kHeadDim, 0.f);
  int runs = 0;
  for (const Term& term : terms()) {
    const BoundMask mask(term.mask, {.queries = kLength, .keys = kLength, .heads = kHeads});
    const std::optional<View> by_residue = view_by_residue(term.mask, shape);
    for (const std::int64_t divisor : {std::int64_t{1}, kHeadDim}) {
      set_values(problem, divisor);
      const auto check = [&](const std::string& plan) {
        expect_counts(problem, mask, divisor, fmt::format("{} {} / {}", term.name, plan, divisor));
      };
      runs += run_every_plan(device, plain_view(term.mask, shape), problem, check);
      if (by_residue) run_every_plan(device, *by_residue, problem, check);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GE(runs, 25 * 2 * (name == "cpu" ? 3 : 1));  // terms, divisors, plans
}

INSTANTIATE_TEST_SUITE_P(Storage, Counting,
                         testing::Combine(testing::Values("cpu", "cuda"),
                                          testing::Values(DType::f32, DType::f16, DType::bf16)),
                         [](const auto& the) {
                           return std::get<0>(the.param) + "_" + std::string(name_of(std::get<1>(the.param)));
                         });

}  // namespace
}  // namespace stof
