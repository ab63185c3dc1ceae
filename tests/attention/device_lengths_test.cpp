// SPDX-License-Identifier: Apache-2.0
// Calls whose lengths or offsets lie where the device reads them: every kernel of every device against the definition,
// lists that cannot be, and what is refused.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/attention/devices.h"
#include "tests/attention/expect_attention.h"
#include "tests/expect_error.h"

namespace stof {
namespace {

using KernelOfDevice = std::tuple<std::string, std::string>;

class DeviceLengthsCall : public testing::TestWithParam<KernelOfDevice> {
 protected:
  void SetUp() override {
    STOF_SKIP_WITHOUT(std::get<0>(GetParam()));
    if (!is_written_for(device(), std::get<1>(GetParam()))) GTEST_SKIP() << "for compute capability 9.0";
  }

  static bool on_gpu() { return std::get<0>(GetParam()) == "cuda"; }

  static ProblemShape shape(BatchForm form) {
    ProblemShape what{.shape = {.batch = 5, .heads = 4, .kv_heads = 2, .queries = 200, .keys = 200, .head_dim = 64},
                      .form = form,
                      .q_lengths = {200, 1, 0, 130, 64},
                      .kv_lengths = {200, 1, 0, 130, 64},
                      .lists_on_device = true};
    if (on_gpu()) what.shape.dtype = DType::f16;
    if (std::get<1>(GetParam()) == "decode_attention") {
      what.shape.queries = 3;
      what.q_lengths = {3, 1, 0, 2, 3};
    }
    return what;
  }
  // Much shorter than planned, but for one.
  static ProblemShape many_short_items() {
    ProblemShape what = shape(BatchForm::packed);
    what.shape.batch = 64, what.shape.heads = 8;
    if (std::get<1>(GetParam()) != "decode_attention") what.shape.queries = what.shape.keys = 1024;
    what.q_lengths.clear(), what.kv_lengths.clear();
    for (int item = 0; item < 64; ++item) {
      const int rows = item == 40 ? 900 : item * 37 % 70;
      what.q_lengths.push_back(static_cast<std::int32_t>(std::min<std::int64_t>(rows, what.shape.queries)));
      what.kv_lengths.push_back(static_cast<std::int32_t>(std::min<std::int64_t>(rows, what.shape.keys)));
    }
    return what;
  }
  // With fewer queries than keys items may begin anywhere.
  static Attention planned(const ProblemShape& what, const Mask& mask) {
    Attention attention(mask, what.shape, device(), {.kernel = std::get<1>(GetParam())});
    if (what.shape.queries < what.shape.keys) attention.prepare(what.shape.queries, 1);
    return attention;
  }
  // Nothing where the kernel refuses the problem.
  static std::optional<Attention> planned_if_taken(const ProblemShape& what, const Mask& mask) {
    try {
      return planned(what, mask);
    } catch (const Error& refused) {
      EXPECT_EQ(refused.kind(), ErrorKind::unsupported) << refused.what();
      return std::nullopt;
    }
  }
  static Device device() { return open_device(std::get<0>(GetParam())); }
};

constexpr BatchForm kForms[] = {BatchForm::heads_first, BatchForm::rows_first, BatchForm::packed};

TEST_P(DeviceLengthsCall, EqualsTheDefinition) {
  for (const BatchForm form : kForms)
    for (const char* text : {"causal & window(30)", "window(9) | sink(4)", "heads(0: causal, *: window(20,3))"}) {
      ProblemShape what = shape(form);
      const Attention attention = planned(what, parse(text));
      for (const float softcap : {0.f, 5.f}) {
        what.softcap = softcap;
        const Problem problem(what, 3);
        run_on(device(), attention, problem);
        EXPECT_EQ(difference_from_definition(problem, parse(text)), "") << text << ", form " << static_cast<int>(form);
        EXPECT_EQ(problem.status().wrong_items, 0);
        EXPECT_EQ(problem.status().first_wrong, -1);
      }
    }
}

// Rows of later items at no multiple of 16 bytes, which the lists do not say.
TEST_P(DeviceLengthsCall, ServesItemsThatAreApartByAnyDistance) {
  for (const BatchForm form : {BatchForm::heads_first, BatchForm::rows_first}) {
    ProblemShape what = shape(form);
    what.item_padding = 4;
    const Attention attention = planned(what, parse("causal & window(30)"));
    const Problem problem(what, 3);
    run_on(device(), attention, problem);
    EXPECT_EQ(difference_from_definition(problem, parse("causal & window(30)")), "")
        << "form " << static_cast<int>(form);
    EXPECT_EQ(problem.status().wrong_items, 0);
  }
}

TEST_P(DeviceLengthsCall, ServesItemsWithFewerKeysAfterPreparing) {
  for (const BatchForm form : kForms) {
    ProblemShape what = shape(form);
    what.kv_lengths = {100, 1, 7, 200, 0};
    const Attention attention = planned(what, parse("window(30)"));
    attention.prepare(what.shape.queries, 1);
    const Problem problem(what, 3);
    run_on(device(), attention, problem);
    EXPECT_EQ(difference_from_definition(problem, parse("window(30)")), "") << "form " << static_cast<int>(form);
    EXPECT_EQ(problem.status().wrong_items, 0);
  }
}

// So many that their row blocks come from a queue, and nearly all of them have no rows: the others come by a list.
TEST_P(DeviceLengthsCall, ServesManyItemsThatAreMuchShorterThanPlanned) {
  for (const bool on_device : {false, true}) {
    int taken = 0;
    for (const char* text : {"causal", "window(40) | sink(3)", "longformer(30,5)",
                             "heads(0-2: causal, *: window(20,3))", "causal & window(70)"}) {
      ProblemShape what = many_short_items();
      what.lists_on_device = on_device;
      const std::optional<Attention> attention = planned_if_taken(what, parse(text));
      if (!attention) continue;
      ++taken;
      const Problem problem(what, 3);
      run_on(device(), *attention, problem);
      EXPECT_EQ(difference_from_definition(problem, parse(text), 7), "") << text << (on_device ? " listed" : "");
    }
    EXPECT_GT(taken, 0) << (on_device ? "listed" : "of the host");
  }
}

TEST_P(DeviceLengthsCall, ServesManyShortItemsOverPages) {
  for (const char* text : {"causal", "longformer(30,5)"}) {
    ProblemShape what = many_short_items();
    what.page_size = 64;
    const std::optional<Attention> attention = planned_if_taken(what, parse(text));
    if (!attention) continue;
    const Problem problem(what, 3);
    run_on(device(), *attention, problem);
    EXPECT_EQ(difference_from_definition(problem, parse(text), 7), "") << text;
  }
}

// The items that are right are computed; of the others nothing is written.
TEST_P(DeviceLengthsCall, CountsItemsThatCannotBe) {
  if (!on_gpu()) GTEST_SKIP() << "an error on the CPU";
  ProblemShape what = shape(BatchForm::rows_first);
  what.q_lengths[1] = what.kv_lengths[1] = what.q_lengths[3] = what.kv_lengths[3] = 0;
  const Attention attention = planned(what, parse("causal"));
  const Problem problem(what, 3);
  AttentionArguments arguments = problem.arguments();
  std::vector<std::int32_t> queries = what.q_lengths, keys = what.kv_lengths;
  queries[1] = -1, keys[3] = 201;
  arguments.device_lengths->q_lengths = queries.data(), arguments.device_lengths->kv_lengths = keys.data();
  run_host_tensors(attention, arguments, device());
  EXPECT_EQ(difference_from_definition(problem, parse("causal")), "");
  EXPECT_EQ(problem.status().wrong_items, 2);
  EXPECT_EQ(problem.status().first_wrong, 1);
}

TEST_P(DeviceLengthsCall, CountsOffsetsThatCannotBe) {
  if (!on_gpu()) GTEST_SKIP() << "an error on the CPU";
  ProblemShape what = shape(BatchForm::packed);
  what.q_lengths = {3, 2, 0, 0, 0}, what.kv_lengths = {90, 80, 0, 0, 0};
  const Attention attention = planned(what, parse("causal"));
  attention.prepare(what.shape.queries, 1);
  const Problem problem(what, 3);
  AttentionArguments arguments = problem.arguments();
  const std::vector<std::int32_t> falling{0, 3, 5, 4, 4, 4}, past{0, 90, 170, 170, 171, 171};
  arguments.device_lengths->cu_q = falling.data(), arguments.device_lengths->cu_kv = past.data();
  run_host_tensors(attention, arguments, device());
  EXPECT_EQ(difference_from_definition(problem, parse("causal")), "");
  EXPECT_EQ(problem.status().wrong_items, 3) << "one falls, one leaves the keys, one begins behind them";
  EXPECT_EQ(problem.status().first_wrong, 2);
}

TEST_P(DeviceLengthsCall, EqualsTheDefinitionWhereKeysLieInPages) {
  for (const BatchForm form : kForms)
    for (const std::int64_t page_size : {16, 64}) {
      ProblemShape what = shape(form);
      what.page_size = page_size;
      const Attention attention = planned(what, parse("causal & window(70)"));
      const Problem problem(what, 3);
      AttentionArguments arguments = problem.arguments();
      arguments.check_pages = page_size == 64;
      run_host_tensors(attention, arguments, device());
      EXPECT_EQ(difference_from_definition(problem, parse("causal & window(70)")), "") << page_size;
      EXPECT_EQ(problem.status().wrong_items, 0);
    }
}

// As engines that serve models have them: offsets of queries, lengths of keys.
TEST_P(DeviceLengthsCall, ServesPackedQueriesOverMoreKeysInPages) {
  for (const char* text : {"causal", "window(30)", "longformer(30,5)"}) {
    ProblemShape what = shape(BatchForm::packed);
    what.shape.keys = 420, what.page_size = 32;
    what.q_lengths[1] = 3;
    what.kv_lengths = {420, 1, 7, 300, 0};
    const std::optional<Attention> attention = planned_if_taken(what, parse(text));
    if (!attention) continue;
    const Problem problem(what, 3);
    run_on(device(), *attention, problem);
    EXPECT_EQ(difference_from_definition(problem, parse(text)), "") << text;
    EXPECT_EQ(problem.status().wrong_items, 0);
  }
}

TEST_P(DeviceLengthsCall, TakesPackedQueriesAloneWherePagesAreFull) {
  ProblemShape what = shape(BatchForm::packed);
  what.shape.keys = 208, what.page_size = 16;
  what.kv_lengths.assign(5, 208);
  const Attention attention = planned(what, parse("causal"));
  const Problem problem(what, 3);
  AttentionArguments arguments = problem.arguments();
  arguments.device_lengths->kv_lengths = nullptr;
  run_host_tensors(attention, arguments, device());
  EXPECT_EQ(difference_from_definition(problem, parse("causal")), "");
  EXPECT_EQ(problem.status().wrong_items, 0);
}

TEST_P(DeviceLengthsCall, CountsOffsetsAndLengthsOfPagesThatCannotBe) {
  if (!on_gpu()) GTEST_SKIP() << "an error on the CPU";
  ProblemShape what = shape(BatchForm::packed);
  what.page_size = 16;  // with room for 208 keys of an item, of which 200 were planned
  what.q_lengths = {3, 2, 0, 0, 0}, what.kv_lengths = {90, 80, 0, 0, 0};
  const Attention attention = planned(what, parse("causal"));
  const Problem problem(what, 3);
  AttentionArguments arguments = problem.arguments();
  const std::vector<std::int32_t> falling{0, 3, 5, 4, 4, 4}, lengths{90, 80, 0, 201, -1};
  arguments.device_lengths->cu_q = falling.data(), arguments.device_lengths->kv_lengths = lengths.data();
  run_host_tensors(attention, arguments, device());
  EXPECT_EQ(difference_from_definition(problem, parse("causal")), "");
  EXPECT_EQ(problem.status().wrong_items, 3) << "one falls, one has too many keys, one fewer than none";
  EXPECT_EQ(problem.status().first_wrong, 2);
}

// Planned for as many keys as queries, an item has fewer: of its rows none is written.
TEST_P(DeviceLengthsCall, CountsItemsOfPagesThatBeginBeforeThePlan) {
  if (!on_gpu()) GTEST_SKIP() << "an error on the CPU, or planned for";
  ProblemShape what = shape(BatchForm::packed);
  if (what.shape.queries < what.shape.keys) GTEST_SKIP() << "items may begin anywhere";
  what.page_size = 16;
  what.q_lengths = {0, 0, 2, 0, 0}, what.kv_lengths = {90, 80, 1, 0, 0};
  const Attention attention = planned(what, parse("causal"));
  const Problem problem(what, 3);
  run_on(device(), attention, problem);
  for (std::int64_t head = 0; head < what.shape.heads; ++head)
    for (std::int64_t row = 0; row < 2; ++row)
      EXPECT_TRUE(std::isnan(problem.get(problem.out, problem.items()[2].out, head, row, 0))) << head << ", " << row;
  EXPECT_EQ(problem.status().wrong_items, 1);
  EXPECT_EQ(problem.status().first_wrong, 2);
}

TEST_P(DeviceLengthsCall, TakesKeyLengthsAlone) {
  for (const std::int64_t page_size : {0, 32}) {
    ProblemShape what = shape(BatchForm::heads_first);
    what.page_size = page_size;
    what.lists_on_device = false, what.lengths_on_device = true;
    what.q_lengths.assign(5, static_cast<std::int32_t>(what.shape.queries));
    what.kv_lengths = {200, 60, 0, 3, 199};
    const Attention attention = planned(what, parse("window(30)"));
    attention.prepare(what.shape.queries, 1);
    const Problem problem(what, 3);
    AttentionArguments arguments = problem.arguments();
    arguments.q_lengths = {};
    run_host_tensors(attention, arguments, device());
    EXPECT_EQ(difference_from_definition(problem, parse("window(30)")), "") << page_size;
  }
}

std::string name_of_case(const testing::TestParamInfo<KernelOfDevice>& the) { return std::get<1>(the.param); }

INSTANTIATE_TEST_SUITE_P(Cpu, DeviceLengthsCall, testing::Combine(testing::Values("cpu"), testing::Values("auto")),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceLengthsCall,
                         testing::Combine(testing::Values("cuda"),
                                          testing::Values("stream_attention", "band_attention", "gather_attention",
                                                          "mma_attention", "row_attention", "decode_attention")),
                         name_of_case);

constexpr auto kInvalid = ErrorKind::invalid_argument;

TEST(DeviceLengthsMessages, SayWhatDoesNotGoTogether) {
  const AttentionShape shape{.batch = 2, .heads = 1, .kv_heads = 1, .queries = 8, .keys = 8, .head_dim = 8};
  const Device device = open_device("cpu");
  const Tensor padded(DType::f32, {2, 1, 8, 8}), packed(DType::f32, {16, 1, 8});
  const std::vector<std::int32_t> lengths{8, 5}, offsets{0, 8, 13};
  AttentionArguments a{.q = padded.view(), .k = padded.view(), .v = padded.view(), .out = padded.view()};
  const auto run = [&](const DeviceLengths& lists) {
    a.device_lengths = lists;
    Attention(all(), shape, device).run(a);
  };
  const DeviceLengths right{.items = 2, .q_lengths = lengths.data(), .kv_lengths = lengths.data()};
  run(right);
  EXPECT_ERROR(run({.items = 2, .q_lengths = lengths.data(), .cu_q = offsets.data()}), kInvalid,
               "attention: both offsets and lengths on the device; give one of the two");
  EXPECT_ERROR(run({.items = 3, .q_lengths = lengths.data()}), kInvalid,
               "attention: 3 items; accepted with device_lengths: 0..2, as planned");
  EXPECT_ERROR(run({.items = 1, .q_lengths = lengths.data()}), kInvalid,
               "attention: q has 2 items; device_lengths have 1");
  a.kv_lengths = lengths;
  EXPECT_ERROR(run(right), kInvalid, "attention: both device_lengths and other lengths, offsets or rows; give one");
  a.kv_lengths = {};
  a.device_lengths = right;
  EXPECT_ERROR(Attention(bigbird(2, 1, 1, 1, 1), shape, device).run(a), kInvalid,
               "attention: device_lengths with a mask that depends on length; accepted: lengths of the host");
  EXPECT_ERROR(Attention(parse("batch(0: causal, *: all)"), shape, device).run(a), kInvalid,
               "attention: device_lengths with a mask that depends on the batch index; accepted: lengths of the host");
  a.q = a.k = a.v = a.out = packed.view();
  EXPECT_ERROR(run({.items = 2, .cu_q = offsets.data()}), kInvalid,
               "attention: device_lengths have cu_q only; accepted: both cu_q and cu_kv");
  LengthsStatus status{.wrong_items = 7, .first_wrong = 7};
  run({.items = 2, .cu_q = offsets.data(), .cu_kv = offsets.data(), .status = &status});
  EXPECT_EQ(status.wrong_items, 0);
  EXPECT_EQ(status.first_wrong, -1);
  std::vector<std::int32_t> pages{0, 1};
  a.page_table = view_of(pages.data(), DType::i32, {2, 1});
  EXPECT_ERROR(run({.items = 2, .cu_q = offsets.data(), .cu_kv = offsets.data()}), kInvalid,
               "attention: device_cu_kv with a page table; accepted: device_kv_lengths");
  EXPECT_ERROR(run({.items = 2, .cu_kv = offsets.data()}), kInvalid,
               "attention: device_cu_kv with a page table; accepted: device_kv_lengths");
  EXPECT_ERROR(run({.items = 2, .q_lengths = lengths.data(), .cu_q = offsets.data()}), kInvalid,
               "attention: device_q_lengths and device_cu_q; give one of the two");
}

TEST(DeviceLengthsMessages, NameTheListsOfPackedQueriesOverPages) {
  const AttentionShape shape{.batch = 2, .heads = 1, .kv_heads = 1, .queries = 8, .keys = 16, .head_dim = 8};
  const Device device = open_device("cpu");
  const Tensor packed(DType::f32, {16, 1, 8}), pool(DType::f32, {2, 1, 16, 8});
  std::vector<std::int32_t> pages{0, 1};
  AttentionArguments a{.q = packed.view(), .k = pool.view(), .v = pool.view(), .out = packed.view()};
  a.page_table = view_of(pages.data(), DType::i32, {2, 1});
  const Attention attention(all(), shape, device);
  const auto run = [&](const std::vector<std::int32_t>& cu_q, const std::vector<std::int32_t>& keys) {
    a.device_lengths = {.items = 2, .kv_lengths = keys.data(), .cu_q = cu_q.data()};
    attention.run(a);
  };
  run({0, 8, 13}, {16, 9});
  EXPECT_ERROR(run({0, 8, 7}, {16, 9}), kInvalid, "attention: device_cu_q falls from 8 to 7 at offset 2");
  EXPECT_ERROR(run({0, 8, 13}, {16, 17}), kInvalid, "attention: device_kv_lengths of item 1 is 17; accepted: 0..16");
  EXPECT_ERROR(run({0, 8, 13}, {-1, 9}), kInvalid, "attention: device_kv_lengths of item 0 is -1; accepted: 0..16");
}

}  // namespace
}  // namespace stof
