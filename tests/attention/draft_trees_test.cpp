// SPDX-License-Identifier: Apache-2.0
// Draft trees that calls bring, and bits that are of no tree: every kernel against the definition, wherever the bits of
// an item's keys begin in a tile and end in a word, beside items that have none.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <vector>

#include "tests/attention/devices.h"
#include "tests/attention/expect_attention.h"
#include "tests/attention/random_trees.h"
#include "tests/expect_error.h"

namespace stof {
namespace {

using TreeCase = std::tuple<std::string, std::string, int, DType>;  // device, kernel, head_dim, storage

// Keys behind a query's own, a window that ends among the keys in front of a tree, what spans of rows do not say, and
// heads that differ.
constexpr std::array kMasks = {"causal",
                               "all",
                               "causal & window(40)",
                               "prefix(30) | causal",
                               "causal & (window(40) | global([3,50]))",
                               "window(20,9)",
                               "heads(0-2: causal, *: all)",
                               "strided(3) | window(5)"};
constexpr std::array kForms = {BatchForm::heads_first, BatchForm::packed, BatchForm::rows_first};

class CallsWithTrees : public testing::TestWithParam<TreeCase> {
 protected:
  void SetUp() override {
    STOF_SKIP_WITHOUT(std::get<0>(GetParam()));
    if (!is_written_for(device(), std::get<1>(GetParam()))) GTEST_SKIP() << "for compute capability 9.0";
  }
  // What a kernel refuses says nothing.
  void TearDown() override {
    if (IsSkipped()) return;
    EXPECT_GT(taken_, 0) << "the kernel refused all problems";
  }

  static Device device() { return open_with_two_threads(std::get<0>(GetParam())); }
  static bool takes_few_queries_only() { return std::get<1>(GetParam()) == "decode_attention"; }

  static ProblemShape shape(std::int64_t queries, std::int64_t keys, std::int64_t per_key_head = 4) {
    const auto& [device, kernel, head_dim, dtype] = GetParam();
    return {.shape = {.batch = 3,
                      .heads = per_key_head,
                      .kv_heads = 1,
                      .queries = queries,
                      .keys = keys,
                      .head_dim = head_dim,
                      .dtype = dtype,
                      .tree_queries = queries},
            .q_lengths = {},
            .kv_lengths = {}};
  }
  // Another form, place of keys and of lengths for every number: each with each in turn.
  static void vary(ProblemShape& what, int number) {
    constexpr std::array<std::int64_t, 4> kPages = {0, 16, 64, 128};
    what.form = kForms[static_cast<std::size_t>(number % 3)];
    what.page_size = kPages[static_cast<std::size_t>(number / 3 % 4)];
    what.lists_on_device = number % 5 < 2;
  }

  void expect_definition(ProblemShape what, const char* text, const TreeForm& form, std::int64_t rows_apart = 1) {
    const Mask mask = parse(text);
    what.trees = random_trees(what, form, ++seed_);
    std::optional<Attention> attention;
    try {
      attention.emplace(mask, what.shape, device(), AttentionOptions{.kernel = std::get<1>(GetParam())});
    } catch (const Error& refused) {
      ASSERT_EQ(refused.kind(), ErrorKind::unsupported) << refused.what();
      return;
    }
    ++taken_;
    if (what.lists_on_device || what.lengths_on_device) attention->prepare(what.shape.queries, 1);
    const Problem problem(what, seed_);
    AttentionArguments arguments = problem.arguments();
    if (what.lengths_on_device) arguments.q_lengths = {};  // full ones
    run_host_tensors(*attention, arguments, device());
    EXPECT_EQ(difference_from_definition(problem, mask, rows_apart), "")
        << text << ", " << what.shape.queries << " queries, form " << static_cast<int>(what.form) << ", pages of "
        << what.page_size << (what.lists_on_device ? ", lists on the device" : "")
        << (form.one_for_all ? ", one tree" : "") << ", trees of " << form.queries;
    EXPECT_EQ(problem.status().wrong_items, what.lists_on_device ? 0 : -1) << text;
  }

 private:
  unsigned seed_ = 0;
  int taken_ = 0;
};

TEST_P(CallsWithTrees, OfFewQueriesEqualTheDefinition) {
  int number = 0;
  for (int queries = 1; queries <= 16; ++queries)
    for (int i = 0; i < 2; ++i, ++number) {
      ProblemShape what = shape(queries, 190, number / 8 % 2 == 0 ? 4 : 8);
      vary(what, number);
      what.q_lengths = {queries, (queries + 1) / 2, queries};
      what.kv_lengths = {190, 64 + number % 9, queries + 7 * number % 130};
      const TreeForm form{.one_for_all = number % 7 < 2, .queries = queries, .more_words = number % 3};
      expect_definition(what, kMasks[static_cast<std::size_t>(number % 8)], form, 2);
    }
}

TEST_P(CallsWithTrees, ThatEndAtAnyBitOfAWordEqualTheDefinition) {
  if (takes_few_queries_only()) GTEST_SKIP() << "of at most 16 queries";
  int number = 0;
  for (const int queries : {17, 31, 32, 33, 63, 64, 65, 100})
    for (int i = 0; i < 2; ++i, ++number) {
      ProblemShape what = shape(queries, 240, number / 8 % 2 == 0 ? 4 : 8);
      vary(what, number);
      what.q_lengths = {queries, queries - 1 - number % 5, queries};
      what.kv_lengths = {240, queries + number, queries};
      const TreeForm form{.one_for_all = number % 7 < 2, .queries = queries, .more_words = number % 3};
      expect_definition(what, kMasks[static_cast<std::size_t>(number % 8)], form, 7);
    }
}

// Items of more queries than a tree has, and of none.
TEST_P(CallsWithTrees, StandBesideItemsThatHaveNone) {
  const bool few = takes_few_queries_only();
  const std::int32_t most = few ? 16 : 90, queries = few ? 7 : 20;
  int number = 0;
  for (const BatchForm batch_form : kForms)
    for (const std::int64_t page_size : {0, 16})
      for (const bool on_device : {false, true}) {
        ProblemShape what = shape(most, 150);
        what.shape.batch = 7;
        what.shape.tree_queries = queries + 2;  // a call's may be of fewer
        what.form = batch_form, what.page_size = page_size, what.lists_on_device = on_device;
        what.q_lengths = {queries, most, 0, queries + 1, queries - 3, 0, queries};
        what.kv_lengths = {77, most + 9, 40, queries + 1, 150, 0, 64 + queries};
        expect_definition(what, kMasks[static_cast<std::size_t>(number++ % 3)], {.queries = queries}, 7);
      }
}

// What a recorded graph follows: where the keys of the queries lie, the device alone knows.
TEST_P(CallsWithTrees, FollowKeyLengthsOfTheDevice) {
  const int queries = takes_few_queries_only() ? 9 : 33;
  for (int number = 0; number < 6; ++number) {
    ProblemShape what = shape(queries, 160);
    what.lengths_on_device = true;
    what.page_size = number % 2 == 0 ? 0 : 32;
    what.q_lengths = {queries, queries, queries};
    what.kv_lengths = {160, 70 + number, number == 3 ? queries - 2 : queries};
    const TreeForm form{.one_for_all = number == 2, .queries = queries, .more_words = number % 3};
    expect_definition(what, kMasks[static_cast<std::size_t>(number)], form, 3);
  }
}

// The first bits of rows are then of no key.
TEST_P(CallsWithTrees, OfItemsWithFewerKeysThanQueriesEqualTheDefinition) {
  const int most = takes_few_queries_only() ? 16 : 70;
  for (int number = 0; number < 8; ++number) {
    ProblemShape what = shape(most, 140);
    vary(what, number);
    what.q_lengths = {most, most - 3, most};
    what.kv_lengths = {most - 1, 1 + number, number % 2 == 0 ? 0 : most / 2};
    expect_definition(what, kMasks[static_cast<std::size_t>(number)], {.queries = most, .more_words = number % 2}, 3);
  }
}

TEST_P(CallsWithTrees, CutScoresThatAreCapped) {
  const int queries = takes_few_queries_only() ? 11 : 40;
  for (const bool planned : {false, true})
    for (int number = 0; number < 6; ++number) {
      ProblemShape what = shape(queries, 170);
      vary(what, number + 6);
      what.softcap = 3;
      what.shape.capped = planned;
      what.q_lengths = {queries, queries - 4, queries};
      what.kv_lengths = {170, 99, queries};
      if (std::get<1>(GetParam()) == "stream_attention" && planned) continue;  // refused
      expect_definition(what, kMasks[static_cast<std::size_t>(number)], {.queries = queries}, 3);
    }
}

TEST_P(CallsWithTrees, CutScoresOfTensorsThatBeginAnywhere) {
  const int queries = takes_few_queries_only() ? 9 : 35;
  for (int number = 0; number < 6; ++number) {
    ProblemShape what = shape(queries, 130);
    vary(what, number);
    what.row_padding = number % 2 == 0 ? 3 : 8;
    what.first = {.q = 1, .k = number % 2 == 0 ? 3 : 0, .v = 5, .out = 1};
    what.without_lse = number == 5;
    what.q_lengths = {queries, 5, queries};
    what.kv_lengths = {130, 66, queries + 1};
    expect_definition(what, kMasks[static_cast<std::size_t>(number)], {.queries = queries}, 3);
  }
}

// Many texts, more than come with a launch of decode_attention, a tree of each, and one text whose keys are cut into
// parts.
TEST_P(CallsWithTrees, OfManyAndOfLongItemsEqualTheDefinition) {
  const int queries = takes_few_queries_only() ? 16 : 26;
  ProblemShape what = shape(queries, 300);
  what.shape.batch = 70;
  for (int i = 0; i < 70; ++i) {
    what.q_lengths.push_back(1 + 11 * i % queries);
    what.kv_lengths.push_back(what.q_lengths.back() + 53 * i % (300 - queries));
  }
  for (const std::int64_t page_size : {0, 64}) {
    what.page_size = page_size, what.form = page_size == 0 ? BatchForm::packed : BatchForm::rows_first;
    expect_definition(what, "causal", {.queries = queries}, 11);
  }
  const int most = std::get<0>(GetParam()) == "cuda" ? 3000 : 700;  // a GPU's kernels cut many into parts
  ProblemShape one = shape(queries, most);
  one.shape.batch = 1;
  for (const std::int64_t page_size : {0, 64})
    for (const int keys : {most, most - 245}) {
      one.page_size = page_size;
      one.q_lengths = {queries}, one.kv_lengths = {keys};
      expect_definition(one, "all", {.queries = queries}, 11);
    }
}

// A plan of its own for every pair of lengths, some of fewer queries than trees may have.
TEST_P(CallsWithTrees, CutMasksThatDependOnLength) {
  if (takes_few_queries_only()) GTEST_SKIP() << "of at most 16 queries";
  if (std::get<1>(GetParam()) == "stream_attention") GTEST_SKIP() << "of rows that have ranges of keys";
  ProblemShape what = shape(48, 192);
  what.q_lengths = {48, 12, 31};
  what.kv_lengths = {192, 128, 64};
  for (const BatchForm batch_form : kForms) {
    what.form = batch_form;
    expect_definition(what, "bigbird(16,1,1,1,1)", {.queries = 48}, 3);
  }
}

// A tree that is known when it is planned for is a mask, whose definition knows nothing of bits.
TEST_P(CallsWithTrees, AreMasksOfTrees) {
  const int nodes = takes_few_queries_only() ? 16 : 75;
  std::mt19937 random(5);
  for (int i = 0; i < 3; ++i) {
    ProblemShape what = shape(nodes, nodes);
    what.shape.batch = 1;
    const std::vector<std::int64_t> parents = random_parents(nodes, random);
    expect_definition(what, "all", {.queries = nodes}, 5);
    const Attention attention(all(), what.shape, device(), {.kernel = std::get<1>(GetParam())});
    const Problem problem(what, 3);
    const ProblemTrees trees = trees_of(parents);
    AttentionArguments arguments = problem.arguments();
    arguments.tree = trees.view();
    run_host_tensors(attention, arguments, device());
    EXPECT_EQ(difference_from_definition(problem, tree(parents)), "");
    // And without a tree the plan is as any other.
    problem.poison_outputs();
    run_on(device(), attention, problem);
    EXPECT_EQ(difference_from_definition(problem, all(), 3), "");
  }
}

std::string name_of_case(const testing::TestParamInfo<TreeCase>& the) {
  return fmt::format("{}_d{}_{}", std::get<1>(the.param), std::get<2>(the.param), name_of(std::get<3>(the.param)));
}

INSTANTIATE_TEST_SUITE_P(Cpu, CallsWithTrees,
                         testing::Values(TreeCase{"cpu", "block_attention", 64, DType::f32},
                                         TreeCase{"cpu", "block_attention", 128, DType::bf16},
                                         TreeCase{"cpu", "row_attention", 72, DType::f16},
                                         TreeCase{"cpu", "auto", 256, DType::f16}),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Cuda, CallsWithTrees,
                         testing::Combine(testing::Values("cuda"),
                                          testing::Values("auto", "stream_attention", "mma_attention",
                                                          "decode_attention", "row_attention"),
                                          testing::Values(64, 72, 128, 256), testing::Values(DType::f16, DType::bf16)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(CudaRows, CallsWithTrees,
                         testing::Combine(testing::Values("cuda"), testing::Values("row_attention"),
                                          testing::Values(64, 72), testing::Values(DType::f32)),
                         name_of_case);

constexpr auto kInvalid = ErrorKind::invalid_argument, kUnsupported = ErrorKind::unsupported;

struct TreeTensors {
  Tensor q{DType::f32, {2, 4, 8, 16}}, k{DType::f32, {2, 2, 20, 16}};
  std::vector<std::int32_t> words = std::vector<std::int32_t>(64, -1);
  AttentionArguments arguments(Shape of_tree) {
    AttentionArguments a{.q = q.view(), .k = k.view(), .v = k.view(), .out = q.view()};
    a.tree = view_of(words.data(), DType::i32, std::move(of_tree));
    return a;
  }
};

AttentionShape shape_of_messages() {
  return {.batch = 2, .heads = 4, .kv_heads = 2, .queries = 8, .keys = 20, .head_dim = 16, .tree_queries = 6};
}

template <class Change>
void run_with(const Change& change) {
  TreeTensors tensors;
  AttentionArguments arguments = tensors.arguments({2, 6, 1});
  AttentionShape shape = shape_of_messages();
  change(arguments, shape);
  Attention(causal(), shape, open_device("cpu")).run(arguments);
}

TEST(DraftTreeMessages, NameWhatIsAccepted) {
  run_with([](auto&, auto&) {});
  run_with([](auto& a, auto&) { a.tree->shape = {1, 3, 1}; });
  EXPECT_ERROR(run_with([](auto&, auto& s) { s.tree_queries = 0; }), kInvalid,
               "attention: a tree with a plan for none; accepted where the plan's shape has tree_queries");
  constexpr std::string_view kAccepted =
      "accepted: i32 [2 or 1, T, ceil(T / 32)] with T of 1..6, the planned tree_queries";
  for (const Shape& wrong : {Shape{3, 6, 1}, {2, 7, 1}, {2, 0, 1}, {2, 6, 2}, {2, 6}})
    EXPECT_ERROR(run_with([&](auto& a, auto&) {
                   a.tree->shape = wrong;
                   a.tree->strides.resize(wrong.size());
                 }),
                 kInvalid, fmt::format("attention: tree is i32 {}; {}", to_string(wrong), kAccepted));
  EXPECT_ERROR(run_with([](auto& a, auto&) { a.tree->dtype = DType::f32; }), kInvalid,
               fmt::format("attention: tree is f32 [2, 6, 1]; {}", kAccepted));
  EXPECT_ERROR(run_with([](auto& a, auto&) {
                 a.tree->strides = {6, -1, 1};
               }),
               kInvalid,
               "attention: tree has strides [6, -1, 1]; accepted: 0 and more, from row to row at most 2147483647, the "
               "last one 1");
  EXPECT_ERROR(run_with([](auto& a, auto&) { a.tree->data = nullptr; }), kInvalid,
               "attention: tree has no memory, its data is null; its shape is [2, 6, 1]");
}

// Of a row of two words.
TEST(DraftTreeMessages, NameStridesOfWords) {
  AttentionShape shape = shape_of_messages();
  shape.queries = shape.keys = shape.tree_queries = 40;
  const Tensor q(DType::f32, {2, 4, 40, 16}), k(DType::f32, {2, 2, 40, 16});
  std::vector<std::int32_t> words(2 * 40 * 4, -1);
  AttentionArguments a{.q = q.view(), .k = k.view(), .v = k.view(), .out = q.view()};
  a.tree = view_of(words.data(), DType::i32, {2, 40, 2});
  a.tree->strides = {160, 4, 2};
  EXPECT_ERROR(Attention(causal(), shape, open_device("cpu")).run(a), kInvalid,
               "attention: tree has strides [160, 4, 2]; accepted: 0 and more, from row to row at most 2147483647, the "
               "last one 1");
}

TEST(DraftTreeMessages, NameWhatDoesNotGoTogether) {
  EXPECT_ERROR(run_with([](auto&, auto& s) { s.tree_queries = 9; }), kInvalid,
               "attention: tree_queries = 9; accepted: 0..8");
  EXPECT_ERROR(run_with([](auto&, auto& s) { s.tree_queries = -1; }), kInvalid,
               "attention: tree_queries = -1; accepted: 0..8");
  EXPECT_ERROR(run_with([](auto& a, auto&) { a.rows = AttentionRows{.items = 0}; }), kInvalid,
               "attention: a tree with rows; accepted: cu_q and cu_kv with a tree");
  EXPECT_ERROR(Attention(MaskTable{.kind = TableKind::blocks}, all(), shape_of_messages(), open_device("cpu")),
               kUnsupported, "attention: tree_queries = 6 with a plan of a table; accepted: 0");
}

// What kernels of a GPU do not take, one that takes it stands in for.
TEST(DraftTreeMessages, NameKernelsThatDoNotReadThem) {
  AttentionShape shape{.batch = 4,
                       .heads = 8,
                       .kv_heads = 2,
                       .queries = 64,
                       .keys = 2048,
                       .head_dim = 64,
                       .dtype = DType::f16,
                       .tree_queries = 64};
  const Device device = open_device("cuda:h200");
  const auto plan = [&](const char* mask, const char* kernel) {
    return std::string(Attention(parse(mask), shape, device, {.kernel = kernel}).plan().kernel);
  };
  for (const char* kernel : {"band_attention", "gather_attention"})
    EXPECT_ERROR(
        plan("causal & window(40)", kernel), kUnsupported,
        fmt::format("no attention kernel takes this problem:\n  {}: calls will bring draft trees, which it does "
                    "not read",
                    kernel));
  EXPECT_ERROR(plan("causal & (window(40) | global([3,50]))", "stream_attention"), kUnsupported,
               "no attention kernel takes this problem:\n  stream_attention: it takes draft trees where the mask "
               "allows each row a prefix and one range of keys");
  EXPECT_EQ(plan("causal", "auto"), "stream_attention");
  EXPECT_EQ(plan("strided(3) & causal", "auto"), "mma_attention");
  shape.capped = true;
  EXPECT_ERROR(plan("causal", "stream_attention"), kUnsupported,
               "no attention kernel takes this problem:\n  stream_attention: it takes no draft trees beside scores "
               "with a cap or a bias");
}

}  // namespace
}  // namespace stof
