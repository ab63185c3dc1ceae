// SPDX-License-Identifier: Apache-2.0
// Few queries over many keys, in rows and in pages: every mask form, batch form and page size against the definition,
// the messages of pages, and the same bits from the same call.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "src/attention/pages.h"
#include "tests/attention/devices.h"
#include "tests/attention/expect_attention.h"
#include "tests/expect_error.h"

namespace stof {
namespace {

using DecodeCase = std::tuple<std::string, std::string, int, DType>;  // device, kernel, head_dim, storage

class Decode : public testing::TestWithParam<DecodeCase> {
 protected:
  void SetUp() override { STOF_SKIP_WITHOUT(std::get<0>(GetParam())); }

  static ProblemShape shape(std::int64_t queries, std::int64_t keys) {
    return {.shape = {.batch = 3,
                      .heads = 8,
                      .kv_heads = 2,
                      .queries = queries,
                      .keys = keys,
                      .head_dim = std::get<2>(GetParam()),
                      .dtype = std::get<3>(GetParam())},
            .q_lengths = {},
            .kv_lengths = {}};
  }
  static Attention planned(const ProblemShape& what, const Mask& mask) {
    return {mask, what.shape, open_device(std::get<0>(GetParam())), {.kernel = std::get<1>(GetParam())}};
  }
  static void expect_definition(const ProblemShape& what, const Mask& mask) {
    const Problem problem(what, 3);
    run_on(open_device(std::get<0>(GetParam())), planned(what, mask), problem);
    EXPECT_EQ(difference_from_definition(problem, mask), "")
        << mask.text() << ", " << what.shape.queries << " queries, pages of " << what.page_size;
  }
};

TEST_P(Decode, EqualsTheDefinitionForEveryMask) {
  for (const std::int64_t queries : {1, 5, 16})
    for (const char* text : {"all", "causal", "sink(4) | window(100)", "strided(3) & causal", "!all",
                             "heads(0-2: causal, *: window(20,3))", "batch(0: causal, *: window(9) | sink(70))"})
      expect_definition(shape(queries, 700), parse(text));
}

// More rows of a key head than decoding reads keys for at once: where a kernel is chosen, heads share tiles.
TEST_P(Decode, EqualsTheDefinitionOfManyRowsOverPages) {
  for (const std::int64_t size : {0, 16, 64})
    for (const int queries : {9, 16}) {
      ProblemShape what = shape(queries, 1100);
      what.shape.heads = 24;
      what.page_size = size;
      what.q_lengths = {queries, 1, queries};
      what.kv_lengths = {1063, 1, 330};
      for (const char* text :
           {"all", "causal", "causal & (window(300) | sink(2))", "heads(0-11: causal, *: window(90))"})
        expect_definition(what, parse(text));
    }
}

TEST_P(Decode, EqualsTheDefinitionForEveryPageSize) {
  for (const BatchForm form : {BatchForm::heads_first, BatchForm::rows_first, BatchForm::packed})
    for (const std::int64_t size : {0, 16, 32, 64, 128, 256}) {
      ProblemShape what = shape(3, 530);
      what.form = form;
      what.page_size = size;
      what.q_lengths = {3, 1, 2};
      what.kv_lengths = {513, 1, 129};
      expect_definition(what, parse("causal & (window(300) | sink(2))"));
      what.kv_lengths = {0, 530, 2};
      expect_definition(what, parse("all"));
    }
}

// So many parts that those of a task are added up in groups; of two tasks, too, that a CTA has parts of.
TEST_P(Decode, EqualsTheDefinitionForLongItems) {
  ProblemShape what = shape(1, 20000);
  what.shape.batch = 1, what.shape.kv_heads = 1;
  expect_definition(what, parse("all"));
  what.shape.queries = 3;
  expect_definition(what, parse("causal & (window(9000) | sink(5))"));
  what.shape.batch = 3;
  what.q_lengths = {3, 3, 3};
  what.kv_lengths = {20000, 9001, 15000};
  expect_definition(what, parse("all"));
}

// 40 to 128 of a key head: of one task, or of two.
TEST_P(Decode, EqualsTheDefinitionForManyRows) {
  for (const int queries : {5, 13, 16})
    for (const std::int64_t size : {0, 16, 64}) {
      ProblemShape what = shape(queries, 2100);
      what.shape.kv_heads = 1;
      what.form = BatchForm::rows_first;
      what.page_size = size;
      what.q_lengths = {queries, 1, queries / 2};
      what.kv_lengths = {2100, 70, 1025};
      expect_definition(what, parse("causal & (window(1500) | sink(3))"));
      expect_definition(what, parse("all"));
    }
}

// Few keys, which another kernel reads then; more, and masks and calls that it does not take.
TEST_P(Decode, EqualsTheDefinitionForLengthsOnTheDevice) {
  const Device device = open_device(std::get<0>(GetParam()));
  const auto expect_right = [&](ProblemShape what, const char* text) {
    what.lengths_on_device = true;
    const auto keys = static_cast<std::int32_t>(what.shape.keys);
    what.q_lengths.assign(3, static_cast<std::int32_t>(what.shape.queries));
    what.kv_lengths = {keys, keys / 2, keys / 9};
    const Attention attention = planned(what, parse(text));
    attention.prepare(what.shape.queries, 1);
    const Problem problem(what, 5);
    AttentionArguments arguments = problem.arguments();
    arguments.q_lengths = {};
    run_host_tensors(attention, arguments, device);
    EXPECT_EQ(difference_from_definition(problem, parse(text)), "")
        << text << ", " << what.shape.queries << " queries of " << what.shape.heads << " heads, " << keys << " keys";
    EXPECT_TRUE(problem.padding_is_untouched());
  };
  for (const std::int64_t queries : {1, 2, 3, 16})
    for (const std::int64_t keys : {20, 300, 1100, 2500}) {
      ProblemShape what = shape(queries, keys);
      for (const char* text : {"all", "causal", "causal & (window(100) | sink(4))", "causal & !window(8)",
                               "strided(3) & causal", "heads(0-2: causal, *: window(20,3))"})
        expect_right(what, text);
      what.form = BatchForm::rows_first, what.page_size = keys < 1000 ? 16 : 64;
      expect_right(what, "causal & (window(200) | sink(20))");
      what.softcap = 15.f, what.without_lse = true;
      expect_right(what, "causal");
    }
  for (const std::int64_t heads : {2, 6, 14, 34}) {
    ProblemShape what = shape(1, 200);
    what.shape.heads = heads;
    expect_right(what, "causal & window(150)");
  }
}

// More tasks than multiprocessors, each of another number of tiles.
TEST_P(Decode, EqualsTheDefinitionForManyItems) {
  ProblemShape what = shape(12, 400);
  what.shape.batch = 90;
  for (int i = 0; i < what.shape.batch; ++i) {
    what.q_lengths.push_back(i % 12 + 1);
    what.kv_lengths.push_back(i * 37 % 400 + 1);
  }
  expect_definition(what, parse("causal & window(190)"));
}

TEST_P(Decode, GivesTheSameBitsTwice) {
  for (const std::int64_t queries : {2, 16}) {
    const ProblemShape what = shape(queries, 2500);
    const Problem problem(what, 3);
    const Attention attention = planned(what, parse("all"));
    const Device device = open_device(std::get<0>(GetParam()));
    run_on(device, attention, problem);
    const auto* bytes = static_cast<const unsigned char*>(problem.out.data);
    const std::vector<unsigned char> once(bytes, bytes + element_count(problem.out.shape) * 2);
    problem.poison_outputs();
    run_on(device, attention, problem);
    EXPECT_EQ(std::memcmp(once.data(), bytes, once.size()), 0);
  }
}

std::string name_of_case(const testing::TestParamInfo<DecodeCase>& the) {
  return fmt::format("{}_d{}_{}", std::get<1>(the.param), std::get<2>(the.param), name_of(std::get<3>(the.param)));
}

INSTANTIATE_TEST_SUITE_P(Cpu, Decode,
                         testing::Combine(testing::Values("cpu"), testing::Values("auto"), testing::Values(24),
                                          testing::Values(DType::f16)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Cuda, Decode,
                         testing::Combine(testing::Values("cuda"), testing::Values("decode_attention"),
                                          testing::Values(64, 72, 128, 136, 256),
                                          testing::Values(DType::f16, DType::bf16)),
                         name_of_case);
// Plans of other kernels among them, beside which there is one for calls in pages.
INSTANTIATE_TEST_SUITE_P(CudaChosen, Decode,
                         testing::Combine(testing::Values("cuda"), testing::Values("auto"), testing::Values(64, 128),
                                          testing::Values(DType::f16)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(CudaOthers, Decode,
                         testing::Combine(testing::Values("cuda"), testing::Values("row_attention", "stream_attention"),
                                          testing::Values(64), testing::Values(DType::f16)),
                         name_of_case);

// How many plans a length of its own takes, of a plan for this kernel and so many queries of 8 heads a key head.
std::int64_t plans_of_a_length(const char* kernel, std::int64_t queries) {
  const AttentionShape shape{
      .batch = 16, .heads = 64, .kv_heads = 8, .queries = queries, .keys = 4096, .head_dim = 128, .dtype = DType::f16};
  const Attention attention(causal(), shape, open_device("cuda:h200"), {.kernel = kernel});
  attention.prepare(queries, 1);
  attention.prepare(queries, 1);
  return attention.plans_made() - 1;
}

TEST(PlansInPlace, AreMadeWhereAnotherKernelWasChosen) {
  const AttentionShape shape{
      .batch = 16, .heads = 64, .kv_heads = 8, .queries = 10, .keys = 4096, .head_dim = 128, .dtype = DType::f16};
  EXPECT_EQ(Attention(causal(), shape, open_device("cuda:h200")).plan().kernel, "stream_attention");
  EXPECT_EQ(plans_of_a_length("auto", 10), 2);
  EXPECT_EQ(plans_of_a_length("stream_attention", 10), 1) << "asked for";
  EXPECT_EQ(plans_of_a_length("auto", 1), 1) << "decode_attention was chosen";
  EXPECT_EQ(plans_of_a_length("auto", 40), 1) << "it takes at most 16 queries";
}

// Stacks need longer until the first key of a page: bench/results/h200-decode-or-stacks.txt.
TEST(PlansInPlace, AreThoseOfPagesWhereStacksGainLittle) {
  const auto kernels = [](std::int64_t queries, std::int64_t head_dim) {
    const AttentionShape shape{.batch = 8,
                               .heads = 32,
                               .kv_heads = 8,
                               .queries = queries,
                               .keys = 512,
                               .head_dim = head_dim,
                               .dtype = DType::f16};
    const Attention attention(all(), shape, open_device("cuda:h200"));
    return fmt::format("{}, {}", attention.plan().kernel, attention.plan_for_pages().kernel);
  };
  EXPECT_EQ(kernels(6, 128), "stream_attention, stream_attention") << "7.8 us in place of 8.9";
  EXPECT_EQ(kernels(12, 64), "stream_attention, decode_attention") << "6.8 us in place of 7.2";
  EXPECT_EQ(kernels(1, 128), "decode_attention, decode_attention");
}

AttentionShape shape_of_chunks(std::int64_t queries, std::int64_t keys, std::int64_t head_dim) {
  return {.batch = 4,
          .heads = 12,
          .kv_heads = 12,
          .queries = queries,
          .keys = keys,
          .head_dim = head_dim,
          .dtype = DType::f16};
}

// The kernel for pieces passes pages on: chunks have a plan for pages beside theirs, full prompts have none.
TEST(PlansInPlace, AreMadeForPagesOfChunks) {
  const auto plans = [](const AttentionShape& shape, const char* kernel) {
    const Attention attention(causal() & (window(32) | sink(4)), shape, open_device("cuda:h200"), {.kernel = kernel});
    EXPECT_EQ(attention.plan().kernel, "gather_attention");
    attention.prepare(shape.queries, 1);
    return attention.plans_made() - 1;
  };
  EXPECT_EQ(plans(shape_of_chunks(500, 8000, 64), "auto"), 2);
  EXPECT_EQ(plans(shape_of_chunks(500, 8000, 64), "gather_attention"), 1);
  EXPECT_EQ(plans(shape_of_chunks(1024, 1024, 64), "auto"), 1);
}

// The one for bands does where a copy of sixteen keys could be of two pages, as rows use so many keys that they begin
// at a multiple of eight alone, and where one CTA has all copies of a multiprocessor, for many row blocks.
TEST(PlansInPlace, AreMadeForBandsThatCopiesOfPagesDelay) {
  const auto kernels = [](std::int64_t keys, std::int64_t head_dim, std::int64_t batch = 2) {
    AttentionShape shape = shape_of_chunks(500, keys, head_dim);
    shape.batch = batch;
    const Attention attention(causal() & window(60), shape, open_device("cuda:h200"));
    return fmt::format("{}, {}", attention.plan().kernel, attention.plan_for_pages().kernel);
  };
  EXPECT_EQ(kernels(8004, 256, 3), "band_attention, stream_attention") << "288 row blocks";
  EXPECT_EQ(kernels(8004, 128, 8), "band_attention, band_attention") << "two CTAs";
  EXPECT_EQ(kernels(8004, 128), "band_attention, band_attention");
  EXPECT_EQ(kernels(8004, 256), "band_attention, band_attention");
  EXPECT_EQ(kernels(8012, 256), "band_attention, stream_attention");
}

// Lists are predicted sooner where keys lie in rows, but need longer until the first key of a page than bands, which
// are not taken where their row blocks lie otherwise than planned (bench/results/h100-bands-over-pages.txt).
TEST(PlansInPlace, AreBandsWhereTheirFirstPageIsThereSooner) {
  const auto kernels = [](const char* mask, std::int64_t queries, std::int64_t keys) {
    const AttentionShape shape{
        .batch = 16, .heads = 40, .kv_heads = 8, .queries = queries, .keys = keys, .head_dim = 64, .dtype = DType::f16};
    const Attention attention(parse(mask), shape, open_device("cuda:h200"));
    return fmt::format("{}, {}", attention.plan().kernel, attention.plan_for_pages().kernel);
  };
  EXPECT_EQ(kernels("causal", 37, 128), "stream_attention, band_attention");
  EXPECT_EQ(kernels("causal & (window(100) | global([3]))", 37, 128), "stream_attention, stream_attention");
  EXPECT_EQ(kernels("causal", 100, 200), "stream_attention, stream_attention");
}

constexpr auto kInvalid = ErrorKind::invalid_argument;

struct PagedTensors {
  Tensor q{DType::f32, {2, 4, 1, 16}}, pool{DType::f32, {6, 2, 16, 16}}, odd{DType::f32, {6, 2, 24, 16}};
  std::vector<std::int32_t> pages{0, 5, 3, 4}, lengths{32, 20};
  AttentionArguments arguments() {
    return {.q = q.view(),
            .k = pool.view(),
            .v = pool.view(),
            .out = q.view(),
            .kv_lengths = lengths,
            .page_table = view_of(pages.data(), DType::i32, {2, 2})};
  }
};

template <class Change>
void run_paged(const Change& change) {
  PagedTensors tensors;
  AttentionArguments arguments = tensors.arguments();
  change(arguments, tensors);
  const AttentionShape shape{.batch = 2, .heads = 4, .kv_heads = 2, .queries = 1, .keys = 40, .head_dim = 16};
  Attention(all(), shape, open_device("cpu")).run(arguments);
}

TEST(PageMessages, NameWhatIsWrong) {
  run_paged([](auto&, auto&) {});
  EXPECT_ERROR(run_paged([](auto& a, auto& t) { a.k = a.v = t.odd.view(); }), kInvalid,
               "attention: pages of 24 keys; accepted: 16, 32, 64, 128, 256");
  EXPECT_ERROR(run_paged([](auto& a, auto&) { a.k = a.q; }), kInvalid,
               "attention: k has shape [2, 4, 1, 16]; this plan takes [pages, 2, page_size, 16]");
  EXPECT_ERROR(
      run_paged([](auto& a, auto& t) { a.page_table = view_of(t.pages.data(), DType::i32, {4}); }), kInvalid,
      "attention: page_table is i32 [4] with strides [1]; accepted: i32 [2, pages of an item], the last stride 1");
  EXPECT_ERROR(run_paged([](auto& a, auto&) { a.page_table->data = nullptr; }), kInvalid,
               "attention: page_table has no memory, its data is null; its shape is [2, 2]");
  EXPECT_ERROR(run_paged([](auto&, auto& t) { t.pages[2] = 6; }), kInvalid,
               "attention: page 0 of item 1 is 6; accepted: 0..5");
  EXPECT_ERROR(run_paged([](auto&, auto& t) { t.pages[1] = -1; }), kInvalid,
               "attention: page 1 of item 0 is -1; accepted: 0..5");
  EXPECT_ERROR(run_paged([](auto&, auto& t) { t.lengths[0] = 33; }), kInvalid,
               "attention: kv_lengths of item 0 is 33; accepted: 0..32");
}

TEST(PageMessages, NameFormsThatDoNotGoTogether) {
  const std::vector<std::int32_t> offsets{0, 1, 2};
  EXPECT_ERROR(run_paged([&](auto& a, auto&) { a.cu_q = a.cu_kv = offsets; }), kInvalid,
               "attention: cu_kv with a page table; accepted: kv_lengths");
  const auto on_device = [](auto& t) { return view_of(t.lengths.data(), DType::i32, {2}); };
  EXPECT_ERROR(run_paged([&](auto& a, auto& t) { a.device_kv_lengths = on_device(t); }), kInvalid,
               "attention: kv_lengths and device_kv_lengths; give one of the two");
  EXPECT_ERROR(run_paged([&](auto& a, auto& t) {
                 a.kv_lengths = {};
                 a.device_kv_lengths = view_of(t.lengths.data(), DType::i32, {1, 2});
               }),
               kInvalid, "attention: device_kv_lengths is i32 [1, 2]; accepted: i32 [2], contiguous");
  run_paged([&](auto& a, auto& t) {
    a.kv_lengths = {};
    a.device_kv_lengths = on_device(t);
  });
}

}  // namespace
}  // namespace stof
