// SPDX-License-Identifier: Apache-2.0
// Every message of a plan and of a run that is asked for something it does not take.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/backend/cuda/driver/api.h"
#include "stof/attention.h"
#include "tests/attention/problem.h"
#include "tests/expect_error.h"

namespace stof {
namespace {

constexpr auto kInvalid = ErrorKind::invalid_argument;

AttentionShape good() { return {.batch = 2, .heads = 4, .kv_heads = 2, .queries = 8, .keys = 10, .head_dim = 16}; }

template <class Change>
void plan_with(const Change& change) {
  AttentionShape shape = good();
  change(shape);
  Attention(causal(), shape, open_device("cpu"));
}

TEST(PlanMessages, NameTheDimension) {
  EXPECT_ERROR(plan_with([](auto& s) { s.batch = 0; }), kInvalid, "attention: batch = 0; accepted: 1..1073741824");
  EXPECT_ERROR(plan_with([](auto& s) { s.heads = -1; }), kInvalid, "attention: heads = -1; accepted: 1..1073741824");
  EXPECT_ERROR(plan_with([](auto& s) { s.kv_heads = 0; }), kInvalid,
               "attention: kv_heads = 0; accepted: 1..1073741824");
  EXPECT_ERROR(plan_with([](auto& s) { s.kv_heads = 3; }), kInvalid,
               "attention: heads = 4 is not a multiple of kv_heads = 3");
  EXPECT_ERROR(plan_with([](auto& s) { s.queries = 1LL << 31; }), kInvalid,
               "attention: queries = 2147483648; accepted: 0..1073741824");
  EXPECT_ERROR(plan_with([](auto& s) { s.keys = -5; }), kInvalid, "attention: keys = -5; accepted: 0..1073741824");
  EXPECT_ERROR(plan_with([](auto& s) { s.head_dim = 257; }), kInvalid, "attention: head_dim = 257; accepted: 1..256");
  EXPECT_ERROR(plan_with([](auto& s) { s.dtype = DType::i32; }), kInvalid,
               "attention: dtype i32; accepted: f32, f16, bf16");
}

struct Tensors {
  Tensor q{DType::f32, {2, 4, 8, 16}}, k{DType::f32, {2, 2, 10, 16}}, v{DType::f32, {2, 2, 10, 16}};
  Tensor out{DType::f32, {2, 4, 8, 16}};
  AttentionArguments arguments() const { return {.q = q.view(), .k = k.view(), .v = v.view(), .out = out.view()}; }
};

TEST(DeviceMessages, NameWhatIsAccepted) {
  EXPECT_ERROR(open_device("tpu"), kInvalid,
               "unknown device 'tpu'; accepted: auto, cpu, cuda, cuda:N; to plan for: cuda:h200, cuda:h100, cuda:a100");
  EXPECT_ERROR(
      open_device("cuda:x"), kInvalid,
      "unknown device 'cuda:x'; accepted: auto, cpu, cuda, cuda:N; to plan for: cuda:h200, cuda:h100, cuda:a100");
  const std::string missing = cuda::missing_driver();
  if (!missing.empty())
    EXPECT_ERROR(open_device("cuda:1"), ErrorKind::device,
                 "device 'cuda:1' cannot be used: " + missing + "; accepted here: cpu, auto");
}

// A batch without rows takes no memory, and every item of it would be listed.
TEST(RunMessages, MoreItemsThanAreListed) {
  const Attention attention(causal(), good(), open_device("cpu"));
  const Tensor q(DType::f32, {1 << 23, 4, 0, 16}), k(DType::f32, {1 << 23, 2, 0, 16});
  EXPECT_ERROR(attention.run({.q = q.view(), .k = k.view(), .v = k.view(), .out = q.view()}), kInvalid,
               "attention: 8388608 items of 4 heads; accepted: at most 16777216 heads of all items");
}

// 16 MiB of a page table stand for 16 TiB of keys and values where every entry names the same page.
TEST(RunMessages, PagesThatAreNamedTooOften) {
  constexpr std::int64_t kKeys = std::int64_t{1} << 30, kPage = 256;
  const Attention attention(all(), {.heads = 8, .kv_heads = 8, .queries = 1, .keys = kKeys, .head_dim = 256},
                            open_device("cpu"));
  const Tensor q(DType::f32, {1, 8, 1, 256}), k(DType::f32, {1, 8, kPage, 256});
  std::vector<std::int32_t> pages(kKeys / kPage, 0);
  try {
    attention.run({.q = q.view(),
                   .k = k.view(),
                   .v = k.view(),
                   .out = q.view(),
                   .page_table = view_of(pages.data(), DType::i32, {1, std::ssize(pages)})});
    ADD_FAILURE() << "there was room";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::device);
    EXPECT_TRUE(std::string_view(error.what())
                    .starts_with("the keys and values of 1073741824 rows in pages: 1.76e+13 bytes; accepted: "))
        << error.what();
  }
}

// One may plan for a GPU that is not there, but not run.
TEST(DeviceMessages, ADescriptionDoesNotRun) {
  const Device device = open_device("cuda:h200");
  EXPECT_EQ(device.caps.arch, 90);
  const Attention attention(causal(), good(), device);
  const Tensors tensors;
  constexpr const char* kMessage =
      "NVIDIA H200 (described) is a description to plan with; accepted for running: cuda, cuda:N";
  EXPECT_ERROR(attention.run(tensors.arguments()), ErrorKind::device, kMessage);
  // By the sum of two results, too.
  AttentionShape shape{.batch = 4, .heads = 4, .kv_heads = 4, .queries = 2048, .keys = 2048, .head_dim = 64};
  shape.dtype = DType::f16;
  const Attention sum(window(64) | strided(32), shape, device);
  ASSERT_FALSE(sum.plan().rest.empty());
  Tensor any(DType::f16, {4, 4, 2048, 64});
  const TensorView view = view_of(any.data(), DType::f16, any.shape());
  EXPECT_ERROR(sum.run({.q = view, .k = view, .v = view, .out = view}), ErrorKind::device, kMessage);
}

template <class Change>
void run_with(const Change& change, const Mask& mask = causal()) {
  const Tensors tensors;
  AttentionArguments arguments = tensors.arguments();
  change(arguments);
  Attention(mask, good(), open_device("cpu")).run(arguments);
}

TEST(RunMessages, NameTheScale) {
  for (const float scale : {std::numeric_limits<float>::infinity(), std::nanf(""), -3e38f, 3e38f})
    EXPECT_ERROR(run_with([&](auto& a) { a.scale = scale; }), kInvalid,
                 fmt::format("attention: scale = {}; accepted: -1e18..1e18", scale));
}

TEST(RunMessages, NameTheSoftcap) {
  for (const float cap : {0.f, -1.f, std::numeric_limits<float>::infinity(), std::nanf(""), 1e-40f, 3e38f})
    EXPECT_ERROR(run_with([&](auto& a) { a.softcap = cap; }), kInvalid,
                 fmt::format("attention: softcap = {}; accepted: 1e-18..1e18", cap));
}

TEST(RunMessages, NameTheTensor) {
  EXPECT_ERROR(run_with([](auto& a) { a.q.dtype = DType::bf16; }), kInvalid,
               "attention: q is bf16; this plan takes f32");
  EXPECT_ERROR(run_with([](auto& a) { a.k = a.q; }), kInvalid,
               "attention: k has shape [2, 4, 8, 16]; this plan takes [batch, 2, rows, 16]");
  EXPECT_ERROR(run_with([](auto& a) {
                 a.v.strides = {320, 160, 16, 2};
               }),
               kInvalid, "attention: v has strides [320, 160, 16, 2]; the last must be 1");
  EXPECT_ERROR(run_with([](auto& a) { a.out.shape[2] = 7; }), kInvalid,
               "attention: out has shape [2, 4, 7, 16]; q has [2, 4, 8, 16]");
  EXPECT_ERROR(run_with([](auto& a) { a.v.shape[2] = 9; }), kInvalid,
               "attention: v has shape [2, 2, 9, 16]; k has [2, 2, 10, 16]");
  EXPECT_ERROR(run_with([](auto& a) { a.k.shape[0] = a.v.shape[0] = 1; }), kInvalid,
               "attention: k has 1 items; q has 2");
  EXPECT_ERROR(run_with([](auto& a) {
                 a.lse = view_of(nullptr, DType::f32, {2, 4, 7});
               }),
               kInvalid, "attention: lse is f32 [2, 4, 7]; this call takes f32 [2, 4, 8]");
  EXPECT_ERROR(run_with([](auto& a) {
                 a.q = a.out = view_of(a.out.data, DType::f32, {2, 4, 9, 16});
               }),
               kInvalid, "attention: the number of query rows of item 0 is 9; accepted: 0..8");
}

TEST(RunMessages, NameWhatHasNoMemory) {
  EXPECT_ERROR(run_with([](auto& a) { a.q.data = nullptr; }), kInvalid,
               "attention: q has no memory, its data is null; its shape is [2, 4, 8, 16]");
  EXPECT_ERROR(run_with([](auto& a) { a.v.data = nullptr; }), kInvalid,
               "attention: v has no memory, its data is null; its shape is [2, 2, 10, 16]");
  EXPECT_ERROR(run_with([](auto& a) { a.out.data = nullptr; }), kInvalid,
               "attention: out has no memory, its data is null; its shape is [2, 4, 8, 16]");
  EXPECT_ERROR(run_with([](auto& a) {
                 a.lse = view_of(nullptr, DType::f32, {2, 4, 8});
               }),
               kInvalid, "attention: lse has no memory, its data is null; its shape is [2, 4, 8]");
  EXPECT_ERROR(run_with([](auto& a) { a.device_kv_lengths = view_of(nullptr, DType::i32, {2}); }), kInvalid,
               "attention: device_kv_lengths has no memory, its data is null; its shape is [2]");
}

TEST(RunMessages, NameWhatSharesMemory) {
  const auto out_with = [](const Shape& strides) { run_with([&](auto& a) { a.out.strides = strides; }); };
  const std::string rest = " elements apart, so that rows share memory; accepted here: ";
  EXPECT_ERROR(out_with({512, 128, 0, 1}), kInvalid, "attention: rows of out are 0" + rest + "16 or more");
  EXPECT_ERROR(out_with({512, 128, 15, 1}), kInvalid, "attention: rows of out are 15" + rest + "16 or more");
  EXPECT_ERROR(out_with({512, 127, 16, 1}), kInvalid, "attention: heads of out are 127" + rest + "128 or more");
  EXPECT_ERROR(out_with({0, 128, 16, 1}), kInvalid, "attention: items of out are 0" + rest + "16 or more");
  EXPECT_ERROR(out_with({512, 128, -16, 1}), kInvalid, "attention: rows of out are -16" + rest + "16 or more");
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_ERROR(out_with({kMost / 2 + 1, kMost / 2, 16, 1}), kInvalid,
               fmt::format("attention: items of out are {}{}{} or more", kMost / 2 + 1, rest, kMost));
  EXPECT_ERROR(run_with([](auto& a) {
                 static float sums[64];
                 a.lse = view_of(sums, DType::f32, {2, 4, 8});
                 a.lse->strides = {32, 7, 1};
               }),
               kInvalid, "attention: heads of lse are 7" + rest + "8 or more");
}

TEST(RunMessages, NameTheLength) {
  const std::vector<std::int32_t> one{3}, negative{3, -1}, too_long{8, 11}, falling{0, 5, 4}, from_one{1, 2, 3},
      fine{0, 2, 8};
  EXPECT_ERROR(run_with([&](auto& a) { a.q_lengths = one; }), kInvalid,
               "attention: q_lengths has 1 lengths for 2 items");
  EXPECT_ERROR(run_with([&](auto& a) { a.q_lengths = negative; }), kInvalid,
               "attention: q_lengths of item 1 is -1; accepted: 0..8");
  EXPECT_ERROR(run_with([&](auto& a) { a.kv_lengths = too_long; }), kInvalid,
               "attention: kv_lengths of item 1 is 11; accepted: 0..10");
  EXPECT_ERROR(run_with([&](auto& a) {
                 a.cu_q = a.cu_kv = fine;
                 a.q_lengths = negative;
               }),
               kInvalid, "attention: both cumulative offsets and lengths; give one of the two");
  const Tensor packed_q(DType::f32, {8, 4, 16}), packed_k(DType::f32, {8, 2, 16});
  const auto packed = [&](auto cu_q, auto cu_kv) {
    return [&, cu_q, cu_kv](auto& a) {
      a.q = a.out = packed_q.view();
      a.k = a.v = packed_k.view();
      a.cu_q = cu_q;
      a.cu_kv = cu_kv;
    };
  };
  EXPECT_ERROR(run_with(packed(falling, fine)), kInvalid, "attention: cu_q falls from 5 to 4 at offset 2");
  EXPECT_ERROR(run_with(packed(fine, from_one)), kInvalid,
               "attention: cu_kv has 3 offsets from 1 to 3; accepted: batch + 1 offsets from 0 to at most 8");
  EXPECT_ERROR(run_with(packed(fine, std::vector<std::int32_t>{0, 8})), kInvalid,
               "attention: cu_q has 3 offsets; cu_kv has 2");
}

// On the CPU, too, where they could be read.
TEST(RunMessages, LengthsOnTheDeviceThatThePlanIsMadeFor) {
  const Problem problem({.shape = {.queries = 64, .keys = 64, .head_dim = 8},
                         .q_lengths = {},
                         .kv_lengths = {64},
                         .lengths_on_device = true},
                        1);
  EXPECT_ERROR(Attention(bigbird(8, 1, 3, 1, 2), problem.what().shape, open_device("cpu")).run(problem.arguments()),
               kInvalid, "attention: lengths on the device with a mask that depends on length; accepted: kv_lengths");
}

// What is wrong beside them is said in the words of the call.
TEST(RunMessages, LengthsOnTheDeviceInACallThatIsWrong) {
  std::vector<std::int32_t> lengths{3, 3}, offsets{0, 4, 8};
  const Tensor packed_q(DType::f32, {8, 4, 16}), packed_k(DType::f32, {8, 2, 16});
  const TensorView device_kv_lengths = view_of(lengths.data(), DType::i32, {2});
  EXPECT_ERROR(run_with([&](auto& a) {
                 a.q = a.out = packed_q.view(), a.k = a.v = packed_k.view();
                 a.cu_q = a.cu_kv = offsets;
                 a.device_kv_lengths = device_kv_lengths;
               }),
               kInvalid, "attention: device_kv_lengths of a packed batch; accepted with pages, or padded");
  EXPECT_ERROR(run_with([&](auto& a) {
                 a.q = TensorView{};
                 a.device_kv_lengths = device_kv_lengths;
               }),
               kInvalid, "attention: q has shape []; this plan takes [batch, 4, rows, 16]");
}

TEST(RunMessages, ItemsPastAMaskThatDiffersByItem) {
  const Mask mask = batch({{0, 0, causal()}}, all());
  const Tensor q(DType::f32, {3, 4, 8, 16}), k(DType::f32, {3, 2, 10, 16});
  const Attention attention(mask, good(), open_device("cpu"));
  EXPECT_ERROR(attention.run({.q = q.view(), .k = k.view(), .v = k.view(), .out = q.view()}), kInvalid,
               "attention: 3 items; the mask differs by item and was planned for 2");
}

}  // namespace
}  // namespace stof
