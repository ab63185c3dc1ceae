// SPDX-License-Identifier: Apache-2.0
// Queries of 0 weigh every allowed key alike. With one-hot values the output counts keys: out times the number of
// allowed keys is, per column, how many allowed keys have that column, exactly. Every kernel, tile and mask term.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <sstream>

#include "src/backend/cuda/attention/instances.h"
#include "tests/attention/devices.h"
#include "tests/attention/every_plan.h"

namespace stof {
namespace {

constexpr std::int64_t kLength = 180;  // of keys; 180 = 12 * 15, for natten
// Key j has the column j / divisor, around: together they say which key it was, from 16 columns on.
constexpr std::int64_t kDivisors[] = {1, 16};

struct Term {
  std::string name;
  Mask mask;
};

Mask bits_of_parity(std::int64_t queries) {
  Tensor table(DType::boolean, {queries, kLength});
  for (std::int64_t i = 0; i < table.size(); ++i) table.as<bool>()[i] = i % 7 < 3 || i % 11 == 0;
  return bits(table.view());
}

Mask block_table(std::int64_t heads) {
  const std::int64_t cells = (kLength + 23) / 24;
  Tensor table(DType::boolean, {heads, cells, cells});
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

std::vector<Term> terms(const AttentionShape& shape) {
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
                           "where((q * 3 + k) % 5 < 2)",
                           "heads(0: causal, *: window(20))",
                           "longformer(8,3)",
                           "bigbird(16,3,2,2,1)",
                           "!(causal | window(30))",
                           "causal & strided(4) | sink(2)"})
    terms.push_back({text, parse(text)});
  if (shape.queries == kLength) terms.push_back({"natten(12,15,5,7)", natten(12, 15, 5, 7)});
  terms.push_back({"bits", bits_of_parity(shape.queries)});
  terms.push_back({"blocks", block_table(shape.heads)});
  terms.push_back({"document_ids", ids()});
  terms.push_back({"tree", chain()});
  return terms;
}

void set_values(const Problem& problem, std::int64_t divisor) {
  const AttentionShape& s = problem.what().shape;
  for (std::int64_t head = 0; head < s.kv_heads; ++head)
    for (std::int64_t j = 0; j < kLength; ++j)
      for (std::int64_t c = 0; c < s.head_dim; ++c)
        problem.set(problem.v, problem.items().front().v, head, j, c, (j / divisor) % s.head_dim == c ? 1.f : 0.f);
}

// Allowed keys of each column, of each row of each head.
std::vector<int> counts(const BoundMask& mask, const AttentionShape& s, std::int64_t divisor) {
  std::vector<int> counts(static_cast<std::size_t>(s.heads * s.queries * s.head_dim));
  for (std::int64_t head = 0; head < s.heads; ++head)
    for (std::int64_t row = 0; row < s.queries; ++row)
      for (std::int64_t j = 0; j < kLength; ++j)
        if (mask.allows(mask.group_of(0, head), row, j))
          ++counts[static_cast<std::size_t>((head * s.queries + row) * s.head_dim + j / divisor % s.head_dim)];
  return counts;
}

void expect_counts(const Problem& problem, const std::vector<int>& counts, const std::string& what) {
  const AttentionShape& s = problem.what().shape;
  const AttentionItem& item = problem.items().front();
  auto expected = counts.begin();
  for (std::int64_t head = 0; head < s.heads; ++head)
    for (std::int64_t row = 0; row < s.queries; ++row, expected += s.head_dim) {
      const int keys = std::accumulate(expected, expected + s.head_dim, 0);
      const double lse = double{problem.lse(item, head, row)};
      if (keys == 0) ASSERT_EQ(lse, -INFINITY) << what << " head " << head << " row " << row;
      else ASSERT_NEAR(lse, std::log(keys), 1e-5) << what << " head " << head << " row " << row;
      for (std::int64_t c = 0; c < s.head_dim; ++c) {
        const double counted = double{problem.get(problem.out, item.out, head, row, c)} * keys;
        ASSERT_EQ(std::round(counted), expected[c]) << what << " head " << head << " row " << row << " column " << c;
        ASSERT_NEAR(counted, std::round(counted), 0.1) << what;
      }
    }
}

// The instances among the plans of a call.
class Seen {
 public:
  void add(const std::string& plan) {
    std::string kernel, instance;
    std::istringstream(plan) >> kernel >> instance;
    names_.insert(instance);
  }
  // Of those that `wanted` is true of.
  template <class Instance, class Wanted>
  void expect_all(std::span<const Instance> instances, std::int64_t head_dim, DType dtype, const Wanted& wanted) const {
    for (const Instance& instance : instances) {
      if (instance.head_dim != head_dim || !wanted(instance)) continue;
      EXPECT_TRUE(names_.contains(name_of(instance, dtype))) << name_of(instance, dtype);
    }
  }

 private:
  std::set<std::string> names_;
};

class Counting : public testing::TestWithParam<std::tuple<std::string, int, DType>> {
 protected:
  void SetUp() override { STOF_SKIP_WITHOUT(std::get<0>(GetParam())); }

  static AttentionShape shape(std::int64_t heads, std::int64_t kv_heads, std::int64_t queries) {
    return {.heads = heads,
            .kv_heads = kv_heads,
            .queries = queries,
            .keys = kLength,
            .head_dim = std::get<1>(GetParam()),
            .dtype = std::get<2>(GetParam())};
  }

  // Every plan of a kernel, or of all, for every term. Returns how many there were.
  static int expect_every_term(const AttentionShape& s, std::string_view kernel, Seen& seen) {
    const Device device = open_device(std::get<0>(GetParam()));
    const Problem problem({.shape = s, .q_lengths = {}, .kv_lengths = {}}, 3);
    std::fill_n(problem.q.as<std::byte>(),
                static_cast<std::size_t>(s.heads * s.queries * s.head_dim) * size_of(s.dtype), std::byte{0});
    int runs = 0;
    for (const Term& term : terms(s)) {
      const BoundMask mask(term.mask, {.queries = s.queries, .keys = s.keys, .heads = s.heads});
      const std::optional<View> by_residue = view_by_residue(term.mask, s);
      for (const std::int64_t divisor : kDivisors) {
        set_values(problem, divisor);
        const std::vector<int> expected = counts(mask, s, divisor);
        const auto check = [&](const std::string& plan) {
          seen.add(plan);
          expect_counts(problem, expected, fmt::format("{} {} / {}", term.name, plan, divisor));
        };
        runs += run_every_plan(device, plain_view(term.mask, s), problem, check, kernel);
        if (by_residue) run_every_plan(device, *by_residue, problem, check, kernel);
        if (HasFatalFailure()) return runs;
      }
    }
    return runs;
  }
};

TEST_P(Counting, EveryKernelTileAndTerm) {
  const auto& [device, head_dim, dtype] = GetParam();
  Seen seen;
  const int runs = expect_every_term(shape(2, 2, kLength), {}, seen);
  if (HasFatalFailure()) return;
  EXPECT_GE(runs, 25 * 2 * (device == "cpu" ? 3 : 1));  // terms, divisors, plans
  if (device != "cuda" || dtype == DType::f32 || open_device(device).caps.arch != 90) return;
  seen.expect_all(cuda::stream_instances(), head_dim, dtype, [](const auto& instance) { return !instance.stacked; });
  seen.expect_all(cuda::mma_instances(), head_dim, dtype, [](const auto&) { return true; });
}

TEST_P(Counting, EveryTermWithHeadsThatShareKeys) {
  const auto& [device, head_dim, dtype] = GetParam();
  const bool stacks = device == "cuda" && dtype != DType::f32 && open_device(device).caps.arch == 90;
  Seen seen;
  for (const std::int64_t heads : {4, 8}) {
    const int runs =
        expect_every_term(shape(heads, 1, heads == 4 ? kLength : 50), stacks ? "stream_attention" : "", seen);
    if (HasFatalFailure()) FAIL() << heads << " heads";
    EXPECT_GE(runs, 24 * 2);
  }
  if (stacks)
    seen.expect_all(cuda::stream_instances(), head_dim, dtype, [](const auto& instance) { return instance.stacked; });
}

TEST_P(Counting, EveryTermWithFewQueries) {
  const auto& [device, head_dim, dtype] = GetParam();
  const std::string_view kernel = device == "cpu" ? "" : dtype == DType::f32 ? "row_attention" : "decode_attention";
  Seen seen;
  for (std::int64_t queries = 1; queries <= 16; queries += device == "cpu" ? 5 : 1) {
    EXPECT_GE(expect_every_term(shape(4, 2, queries), kernel, seen), 24 * 2);
    if (HasFatalFailure()) FAIL() << queries << " queries";
  }
}

std::set<int> head_dims() {
  std::set<int> all;
  for (const cuda::StreamInstance& instance : cuda::stream_instances()) all.insert(instance.head_dim);
  for (const cuda::MmaInstance& instance : cuda::mma_instances()) all.insert(instance.head_dim);
  return all;
}

std::string name_of_case(const testing::TestParamInfo<Counting::ParamType>& the) {
  return fmt::format("d{}_{}", std::get<1>(the.param), name_of(std::get<2>(the.param)));
}

INSTANTIATE_TEST_SUITE_P(Cpu, Counting,
                         testing::Combine(testing::Values("cpu"), testing::Values(16),
                                          testing::Values(DType::f32, DType::f16, DType::bf16)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Cuda, Counting,
                         testing::Combine(testing::Values("cuda"), testing::ValuesIn(head_dims()),
                                          testing::Values(DType::f16, DType::bf16)),
                         name_of_case);
// Of fewer columns than an instance has, and what no tensor core takes.
INSTANTIATE_TEST_SUITE_P(CudaOthers, Counting,
                         testing::Combine(testing::Values("cuda"), testing::Values(16),
                                          testing::Values(DType::f32, DType::f16)),
                         name_of_case);

}  // namespace
}  // namespace stof
