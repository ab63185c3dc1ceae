// SPDX-License-Identifier: Apache-2.0
#include "src/attention/choose.h"

#include <gtest/gtest.h>

#include <array>

#include "src/attention/live_share.h"
#include "src/attention/planned.h"
#include "tests/expect_error.h"

namespace stof {
namespace {

template <int kMicroseconds>
std::vector<AttentionPlan> candidate(const AttentionProblem&, const DeviceCaps&) {
  AttentionPlan plan;
  plan.predicted_us = kMicroseconds;
  return {plan};
}

std::vector<AttentionPlan> two_candidates(const AttentionProblem&, const DeviceCaps&) {
  AttentionPlan slow, quick;
  slow.predicted_us = 9;
  quick.predicted_us = 3;
  quick.format.block_q = 32;
  return {slow, quick};
}

Refusal takes_all(const AttentionProblem&, const DeviceCaps&) { return std::nullopt; }
Refusal too_small(const AttentionProblem&, const DeviceCaps&) { return "too small"; }
Refusal too_odd(const AttentionProblem&, const DeviceCaps&) { return "too odd"; }

AttentionKernel kernel(std::string_view name, decltype(AttentionKernel::refuses) refuses,
                       decltype(AttentionKernel::candidates) candidates) {
  return {.name = name, .refuses = refuses, .candidates = candidates, .arrange = nullptr, .run = nullptr};
}

TEST(Choose, TakesTheSmallestPredictedTimeOfAllTiles) {
  const std::array kernels{kernel("a", takes_all, candidate<5>), kernel("b", takes_all, two_candidates)};
  const Choice choice = choose(kernels, {}, {});
  EXPECT_EQ(choice.kernel->name, "b");
  EXPECT_EQ(choice.plan.format.block_q, 32);
  EXPECT_EQ(choice.considered.size(), 3u);
}

TEST(Choose, KeepsTheRefusals) {
  const std::array kernels{kernel("a", too_small, candidate<1>), kernel("b", takes_all, candidate<5>)};
  const Choice choice = choose(kernels, {}, {});
  EXPECT_EQ(choice.kernel->name, "b");
  EXPECT_EQ(choice.refusals, (std::vector<Refused>{{"a", "too small"}}));
}

TEST(Choose, ForcesOneKernelByName) {
  const std::array kernels{kernel("a", takes_all, candidate<1>), kernel("b", takes_all, candidate<5>)};
  EXPECT_EQ(choose(kernels, {}, {}, "b").kernel->name, "b");
  EXPECT_ERROR(choose(kernels, {}, {}, "c"), ErrorKind::invalid_argument,
               "unknown attention kernel 'c'; accepted: auto, a, b");
}

TEST(Choose, RefusedIsWhoTakesNeitherOfTwoViews) {
  const std::array kernels{kernel("a", takes_all, candidate<3>), kernel("b", takes_all, candidate<5>)};
  const auto takes = [&](std::size_t which, std::vector<Refused> refusals) {
    AttentionPlan plan = kernels[which].candidates({}, {}).front();
    plan.kernel = kernels[which].name;
    return Choice{&kernels[which], plan, {plan}, std::move(refusals)};
  };
  Choice nobody;
  nobody.refusals = {{"c", "too odd"}};
  const Choice both =
      better(takes(1, {{"a", "too small"}, {"c", "too odd"}}), takes(0, {{"b", "too odd"}, {"c", "old"}}));
  EXPECT_EQ(both.plan.kernel, "a");
  EXPECT_EQ(both.considered.size(), 2u);
  EXPECT_EQ(both.refusals, (std::vector<Refused>{{"c", "too odd"}}));
  EXPECT_EQ(better(nobody, takes(1, {})).plan.kernel, "b");
  EXPECT_EQ(better(takes(1, {}), nobody).plan.kernel, "b");
  EXPECT_ERROR(settled(better(nobody, nobody)), ErrorKind::unsupported,
               "no attention kernel takes this problem:\n  c: too odd");
}

// A kernel may take what is allowed by residue class, or row blocks that begin at the first row, and nothing else of
// it.
TEST(Choose, WhatIsChosenCanBeAskedFor) {
  const Device device = open_device("cuda:h200");
  AttentionShape by_class{
      .heads = 8, .kv_heads = 8, .queries = 4096, .keys = 4096, .head_dim = 64, .dtype = DType::f16};
  AttentionShape chunk = by_class;
  chunk.queries = 64, chunk.keys = 4091;
  for (const auto& [mask, shape] : {std::pair(dilated(8, 16), by_class), {window(192, 0), chunk}}) {
    const Choice free = choose_attention(mask, shape, device, "auto");
    EXPECT_EQ(free.plan.kernel, "band_attention");
    for (const Refused& refused : free.refusals) EXPECT_NE(refused.kernel, "band_attention") << refused.why;
    EXPECT_EQ(Attention(mask, shape, device, {.kernel = "band_attention"}).plan().instance, free.plan.instance);
  }
}

// What only kernels of the host are priced by is not looked at for a GPU.
TEST(Choose, LiveSharesAreMeasuredWhereTheyCount) {
  const AttentionShape shape{.heads = 1, .kv_heads = 1, .queries = 512, .keys = 512, .head_dim = 64};
  const View view = plain_view(parse("strided(16)"), shape);
  const double share = partial_live_share(view.mask);
  EXPECT_LT(share, 1);
  EXPECT_EQ(problem_of(view, open_device("cpu")).partial_live, share);
  EXPECT_EQ(problem_of(view, open_device("cuda:h200")).partial_live, 1);
}

TEST(Choose, RefusalListsEveryKernel) {
  const std::array kernels{kernel("a", too_small, candidate<1>), kernel("b", too_odd, candidate<1>)};
  EXPECT_ERROR(choose(kernels, {}, {}), ErrorKind::unsupported,
               "no attention kernel takes this problem:\n  a: too small\n  b: too odd");
  EXPECT_ERROR(choose(kernels, {}, {}, "b"), ErrorKind::unsupported,
               "no attention kernel takes this problem:\n  b: too odd");
}

// The choice for another machine is made on this one.
TEST(Choose, OnTheCpuDenseMasksGoByBlocksAndNextToNothingByRows) {
  Device device = open_device("cpu");
  device.caps = {.name = "16 cores", .cores = 16};
  const AttentionShape shape{.heads = 12, .kv_heads = 12, .queries = 2048, .keys = 2048, .head_dim = 64};
  EXPECT_EQ(choose_attention(all(), shape, device, "auto").plan.kernel, "block_attention");
  EXPECT_EQ(choose_attention(window(64), shape, device, "auto").plan.kernel, "block_attention");
  EXPECT_EQ(choose_attention(dilated(4, 128) | window(1), shape, device, "auto").plan.kernel, "row_attention");
  AttentionShape decode = shape;
  decode.queries = 1;
  EXPECT_EQ(choose_attention(causal(), decode, device, "auto").plan.kernel, "row_attention");
}

TEST(Choose, PredictsLessForLessWork) {
  const Device device = open_device("cpu");
  const AttentionShape shape{.heads = 12, .kv_heads = 12, .queries = 4096, .keys = 4096, .head_dim = 64};
  const auto predicted = [&](const Mask& mask) {
    return choose_attention(mask, shape, device, "auto").plan.predicted_us;
  };
  EXPECT_LT(predicted(window(64)), predicted(causal()));
  EXPECT_LT(predicted(causal()), predicted(all()));
}

// What is measured to be ahead in bench/results/e991505-h200-attention.json.
TEST(Choose, OnAnH200TheMaskAndTheSizeOfTheGridDecide) {
  const Device device = open_device("cuda:h200");
  const auto instance = [&](std::string_view mask, std::int64_t batch, std::int64_t length) {
    const AttentionShape shape{.batch = batch,
                               .heads = 12,
                               .kv_heads = 12,
                               .queries = length,
                               .keys = length,
                               .head_dim = 64,
                               .dtype = DType::f16};
    return choose_attention(parse(mask), shape, device, "auto").plan.instance;
  };
  EXPECT_EQ(instance("window(32)", 16, 4096), "stream_f16_d64_t2_p2_k1_s4_c1_g1");
  EXPECT_EQ(instance("window(32)", 1, 4096), "band_f16_d64_p1_k128_c4");
  EXPECT_EQ(instance("window(16)", 1, 128), "band_f16_d64_p1_k96_c5");
  EXPECT_EQ(instance("bigbird(64,3,2,3,1)", 16, 4096), "stream_f16_d64_t4_p1_k1_s2_c1_g1");
  EXPECT_EQ(instance("causal", 1, 1024), "stream_f16_d64_t2_p1_k1_s4_c1_g2");
}

// From bench/results/h200-attention-cost.json and -regret.json.
TEST(Choose, OnAnH200ShortRowsHaveFormsOfTheirHeadDimension) {
  const Device device = open_device("cuda:h200");
  const auto choice = [&](const char* mask, std::int64_t heads, std::int64_t length, std::int64_t head_dim) {
    const AttentionShape shape{.heads = heads,
                               .kv_heads = heads,
                               .queries = length,
                               .keys = length,
                               .head_dim = head_dim,
                               .dtype = DType::bf16};
    return choose_attention(parse(mask), shape, device, "auto");
  };
  EXPECT_EQ(choice("window(8)", 20, 200, 80).plan.instance, "band_bf16_d96_p1_k96_c2");
  EXPECT_EQ(choice("window(8)", 8, 384, 192).plan.instance, "band_bf16_d256_p1_k96_c1");
  EXPECT_EQ(choice("all", 12, 256, 64).plan.instance, "band_bf16_d64_p1_k256_c2");
  EXPECT_EQ(choice("causal", 16, 1024, 96).plan.instance, "stream_bf16_d96_t2_p1_k1_s2_c1_g1");
  const auto refused = [&](std::int64_t head_dim) -> std::string {
    for (const Refused& one : choice("window(60)", 8, 600, head_dim).refusals)
      if (one.kernel == "band_attention") return one.why;
    return "";
  };
  EXPECT_EQ(refused(128), "");
  EXPECT_EQ(refused(256), "some 64 rows use keys 188 apart; at most 128 fit");
}

TEST(Choose, ViewsDilatedMasksByResidueClassWhereThatIsFaster) {
  const AttentionShape shape{
      .heads = 32, .kv_heads = 32, .queries = 16384, .keys = 16384, .head_dim = 128, .dtype = DType::f16};
  const Device gpu = open_device("cuda:h200"), cpu = open_device("cpu");
  EXPECT_EQ(choose_attention(dilated(512, 2), shape, gpu, "auto").plan.residues, 2);
  EXPECT_EQ(choose_attention(dilated(512, 4), shape, cpu, "auto").plan.residues, 4);
  EXPECT_EQ(choose_attention(parse("where((q - k) % 4 == 0 & q >= k)"), shape, gpu, "auto").plan.residues, 4);
  EXPECT_EQ(choose_attention(window(512), shape, gpu, "auto").plan.residues, 1);
}

// Three classes of 2,048 rows are not alike and come one after the other, each reading every third row of 100 MB; of
// 2,046 they go side by side.
TEST(Choose, ViewsByResidueClassOnlyWhatTheCacheKeepsOrClassesShare) {
  AttentionShape shape{
      .batch = 8, .heads = 12, .kv_heads = 12, .queries = 2048, .keys = 2048, .head_dim = 64, .dtype = DType::f16};
  const Device gpu = open_device("cuda:h200");
  EXPECT_EQ(choose_attention(dilated(24, 3), shape, gpu, "auto").plan.residues, 1);
  shape.queries = shape.keys = 2046;
  EXPECT_EQ(choose_attention(dilated(24, 3), shape, gpu, "auto").plan.residues, 3);
}

// 16 rows each of 1,024 classes have few keys, but are many rows: to decode them took longer than lists of the whole.
TEST(Choose, CountsTheRowsOfWhatIsDecoded) {
  AttentionShape shape{
      .heads = 40, .kv_heads = 10, .queries = 16384, .keys = 16384, .head_dim = 80, .dtype = DType::f16};
  const Device gpu = open_device("cuda:h100");
  EXPECT_TRUE(choose_attention(parse("causal & (window(1024) | strided(1024))"), shape, gpu, "auto").plan.rest.empty());
  EXPECT_EQ(choose_attention(parse("strided(1024)"), shape, gpu, "auto").plan.kernel, "stream_attention");
  shape.queries = 1;
  EXPECT_EQ(choose_attention(all(), shape, gpu, "auto").plan.kernel, "decode_attention");
}

// Of problems with 256 queries.
std::vector<Refused> but_one(std::string_view kernel, std::span<const AttentionKernel> kernels,
                             const std::string& why) {
  std::vector<Refused> refusals;
  for (const AttentionKernel& other : kernels)
    if (other.name == "decode_attention") refusals.push_back({other.name, "it takes at most 16 queries, not 256"});
    else if (other.name != "row_attention" && other.name != kernel) refusals.push_back({other.name, why});
  return refusals;
}

TEST(Choose, OnAnH200WhatTheCopyEngineDoesNotTakeGoesByMmaAndFp32RowByRow) {
  const Device device = open_device("cuda:h200");
  AttentionShape shape{.queries = 256, .keys = 256, .head_dim = 64};
  Choice choice = choose_attention(causal(), shape, device, "auto");
  EXPECT_EQ(choice.plan.kernel, "row_attention");
  EXPECT_EQ(choice.refusals, but_one("", device.backend->attention, "it takes f16 and bf16, not f32"));
  shape.dtype = DType::f16;
  shape.head_dim = 60;
  choice = choose_attention(causal(), shape, device, "auto");
  EXPECT_EQ(choice.plan.instance, "mma_f16_d64_p1_w1_s2_c4");
  EXPECT_EQ(choice.refusals, but_one("mma_attention", device.backend->attention,
                                     "head_dim 60 is not a multiple of 8, which the copy engine needs"));
}

// 29 bits of a tile's mark are for its first key.
TEST(Choose, OnAnH200TilesHaveHalfABillionKeysAtMost) {
  const Device device = open_device("cuda:h200");
  AttentionShape shape{.queries = 64, .keys = (1 << 29) + 1, .head_dim = 8, .dtype = DType::f16};
  EXPECT_EQ(choose_attention(window(8), shape, device, "auto").refusals.back().why,
            "536870913 keys are more than 536870912");
  shape.keys = 1 << 29;
  EXPECT_EQ(choose_attention(window(8), shape, device, "auto").plan.kernel, "band_attention");
}

TEST(Choose, OnAnH200CappedScoresGoByListsWhereTheirKernelCanBeCompiled) {
  const Device device = open_device("cuda:h200");
  const AttentionShape shape{
      .batch = 4, .queries = 2048, .keys = 2048, .head_dim = 64, .dtype = DType::f16, .capped = true};
  const auto chosen = [&](const Mask& mask, const std::string& why_not_compiled) {
    AttentionProblem problem = problem_of(plain_view(mask, shape), device);
    EXPECT_EQ(problem.why_not_compiled, "");  // of a machine that is not there
    problem.why_not_compiled = why_not_compiled;
    return choose(device.backend->attention, problem, device.caps);
  };
  EXPECT_EQ(chosen(causal(), "").plan.kernel, "stream_attention");
  const Choice choice = chosen(window(16), "run-time compilation is off");
  EXPECT_EQ(choice.plan.kernel, "mma_attention");
  const std::string capped = "calls will bring a softcap, which it does not do";
  EXPECT_EQ(choice.refusals, (std::vector<Refused>{{"band_attention", capped},
                                                   {"decode_attention", "it takes at most 16 queries, not 2048"},
                                                   {"gather_attention", capped},
                                                   {"stream_attention",
                                                    "its form for capped scores is compiled when it is first "
                                                    "wanted, and run-time compilation is off"}}));
}

// From bench/results/h200-register-banks.txt: where power is the limit, row blocks of 192 rows of which the last one
// lacks a third lose what they multiply.
TEST(Choose, OnAnH200LongChunksMultiplyNoMoreThanTheyNeed) {
  const Device device = open_device("cuda:h200");
  AttentionShape shape{
      .batch = 8, .heads = 32, .kv_heads = 8, .queries = 512, .keys = 32768, .head_dim = 128, .dtype = DType::f16};
  EXPECT_EQ(choose_attention(causal(), shape, device, "auto").plan.instance, "stream_f16_d128_t1_p2_k2_s2_c1_g1");
  shape.queries = 576;  // three whole ones
  EXPECT_EQ(choose_attention(causal(), shape, device, "auto").plan.format.block_q, 192);
}

// From the rows of bench/results/*-h200-decode.json.
TEST(Choose, OnAnH200FewQueriesOverManyKeysAreDecoded) {
  const Device device = open_device("cuda:h200");
  AttentionShape shape{
      .batch = 16, .heads = 32, .kv_heads = 8, .queries = 1, .keys = 32768, .head_dim = 128, .dtype = DType::f16};
  const auto plan = [&](std::string_view mask) { return choose_attention(parse(mask), shape, device, "auto").plan; };
  EXPECT_EQ(plan("all").instance, "decode_f16_d128_c2");
  EXPECT_EQ(plan("causal & window(4096) | sink(4)").instance, "decode_f16_d128_c2");
  EXPECT_LT(5 * plan("sink(4) | window(4096)").predicted_us, plan("all").predicted_us);
  shape.queries = 16;
  EXPECT_EQ(plan("causal").kernel, "decode_attention");
  shape.queries = 17;
  EXPECT_NE(plan("causal").kernel, "decode_attention");
}

TEST(Choose, OnAnA100TensorCoresTakeWhateverIsNotFp32) {
  const Device device = open_device("cuda:a100");
  AttentionShape shape{
      .batch = 16, .heads = 12, .kv_heads = 12, .queries = 256, .keys = 4096, .head_dim = 64, .dtype = DType::bf16};
  for (const std::int64_t head_dim : {8, 17, 64, 96, 128, 200, 256}) {
    shape.head_dim = head_dim;
    const Choice choice = choose_attention(causal(), shape, device, "auto");
    EXPECT_EQ(choice.plan.kernel, "mma_attention") << head_dim;
    EXPECT_EQ(choice.refusals, but_one("mma_attention", device.backend->attention,
                                       "it is written for compute capability 9.0; this device has 8.0"));
  }
  shape.dtype = DType::f32;
  EXPECT_EQ(choose_attention(causal(), shape, device, "auto").plan.kernel, "row_attention");
}

TEST(Choose, BeforeCopiesOverlapComputationRowsAreAllThatIs) {
  Device device = open_device("cuda:a100");
  device.caps.arch = 75;
  const AttentionShape shape{.queries = 256, .keys = 256, .head_dim = 64, .dtype = DType::f16};
  const Choice choice = choose_attention(causal(), shape, device, "auto");
  EXPECT_EQ(choice.plan.kernel, "row_attention");
  EXPECT_EQ(choice.refusals.back(), (Refused{"mma_attention", "it needs compute capability 8.0; this device has 7.5"}));
}

}  // namespace
}  // namespace stof
