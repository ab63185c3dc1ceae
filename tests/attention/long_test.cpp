// SPDX-License-Identifier: Apache-2.0
// 131,072 positions, and tensors of more than 2^31 elements: sampled rows against the definition, so that an index that
// overflows shows.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "src/attention/planned.h"
#include "src/attention/reference.h"
#include "src/backend/cuda/driver/device.h"
#include "src/backend/cuda/driver/device_memory.h"
#include "src/tensor/half.h"
#include "tests/attention/devices.h"
#include "tests/attention/expect_attention.h"
#include "tests/attention/tolerance.h"

namespace stof {
namespace {

constexpr std::int64_t kLong = 131072;

class LongRows : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

// Global rows have all keys, which are split.
TEST_P(LongRows, EqualTheDefinition) {
  const auto& [name, text] = GetParam();
  STOF_SKIP_WITHOUT(name);
  constexpr std::int64_t kRowsApart = 2081;  // 64 rows, from different places of a tile
  const Device device = open_device(name);
  const AttentionShape shape{.queries = kLong, .keys = kLong, .head_dim = 64, .dtype = DType::f16};
  const Mask mask = parse(text);
  const Problem problem({.shape = shape, .q_lengths = {}, .kv_lengths = {}}, 11);
  const AttentionProblem asked = problem_of(plain_view(mask, shape), device);
  int kernels = 0;
  for (const AttentionKernel& kernel : device.backend->attention) {
    // Differences of a period are dense tiles to a kernel that is given them as they are: gigabytes of bitmaps.
    const bool as_chosen = text.find("strided") != std::string::npos;
    if (!as_chosen && kernel.refuses(asked, device.caps)) continue;
    problem.poison_outputs();
    run_on(device, Attention(mask, shape, device, {.kernel = as_chosen ? "auto" : std::string(kernel.name)}), problem);
    EXPECT_EQ(difference_from_definition(problem, mask, kRowsApart), "") << kernel.name;
    if (as_chosen) return;
    ++kernels;
  }
  EXPECT_GE(kernels, is_written_for(device, "stream_attention") && name == "cuda" ? 4 : 2);
}

const std::string kLongMasks[] = {"window(100)", "causal & window(200)", "window(40) | global(2)",
                                  "causal & (window(64) | sink(4))", "causal & strided(1024)"};

INSTANTIATE_TEST_SUITE_P(Cpu, LongRows, testing::Combine(testing::Values("cpu"), testing::ValuesIn(kLongMasks)),
                         [](const auto& the) { return fmt::format("{}", the.index); });
INSTANTIATE_TEST_SUITE_P(Cuda, LongRows, testing::Combine(testing::Values("cuda"), testing::ValuesIn(kLongMasks)),
                         [](const auto& the) { return fmt::format("{}", the.index); });

// Rows repeat after a prime number of them: an offset without its upper bits finds another row.
class RepeatedRows {
 public:
  static constexpr std::int64_t kPeriod = 8191;

  RepeatedRows(const cuda::Gpu& gpu, std::int64_t rows, std::int64_t head_dim, unsigned seed)
      : block_(DType::f16, {kPeriod, head_dim}), memory_(gpu, static_cast<std::size_t>(rows * head_dim) * 2) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < block_.size(); ++i) block_.as<std::uint16_t>()[i] = f16_of_float(normal(random));
    const std::span<const std::byte> bytes(block_.as<std::byte>(), block_.bytes());
    for (std::size_t at = 0; at < memory_.bytes(); at += bytes.size())
      copy_in(gpu, memory_.address() + at, bytes.first(std::min(bytes.size(), memory_.bytes() - at)));
  }
  const std::uint16_t* row(std::int64_t index) const {
    return block_.as<std::uint16_t>() + index % kPeriod * block_.shape()[1];
  }
  void* data() const { return memory_.as<void>(); }

 private:
  Tensor block_;
  cuda::DeviceMemory memory_;
};

// q, k, v and out of more than 2^31 elements each, as [1, heads, rows, d] in either order.
class FarTensors {
 public:
  static constexpr std::int64_t kHeads = 72, kHeadDim = 256;
  static_assert(kHeads * kLong * kHeadDim > std::int64_t{1} << 31);

  explicit FarTensors(const cuda::Gpu& gpu)
      : gpu_(gpu),
        q_(gpu, kHeads * kLong, kHeadDim, 1),
        k_(gpu, kHeads * kLong, kHeadDim, 2),
        v_(gpu, kHeads * kLong, kHeadDim, 3),
        out_(gpu, kHeads * kLong * kHeadDim * 2),
        lse_(gpu, kHeads * kLong * 4) {}

  AttentionArguments arguments(bool rows_first) {
    out_.fill(0xFF);
    lse_.fill(0xFF);
    const auto view = [&](void* data, DType dtype, std::int64_t d) {
      TensorView tensor = view_of(data, dtype, {1, kHeads, kLong, d});
      if (rows_first) tensor.strides = {kHeads * kLong * d, d, kHeads * d, 1};
      return tensor;
    };
    TensorView lse = view_of(lse_.as<void>(), DType::f32, {1, kHeads, kLong});
    if (rows_first) lse.strides = {kHeads * kLong, 1, kHeads};
    return {.q = view(q_.data(), DType::f16, kHeadDim),
            .k = view(k_.data(), DType::f16, kHeadDim),
            .v = view(v_.data(), DType::f16, kHeadDim),
            .out = view(out_.as<void>(), DType::f16, kHeadDim),
            .lse = lse};
  }

  // What a row should be, from the allowed keys alone.
  ReferenceRow expected(const BoundMask& mask, std::int64_t head, std::int64_t row, bool rows_first) const {
    std::vector<std::uint16_t> keys, values;
    for (std::int64_t key = 0; key < kLong; ++key) {
      if (!mask.allows(mask.group_of(0, head), row, key)) continue;
      const std::int64_t index = row_index(head, key, rows_first);
      keys.insert(keys.end(), k_.row(index), k_.row(index) + kHeadDim);
      values.insert(values.end(), v_.row(index), v_.row(index) + kHeadDim);
    }
    const std::int64_t count = std::ssize(keys) / kHeadDim;
    AttentionCall call;
    call.q = q_.row(row_index(head, row, rows_first)), call.k = keys.data(), call.v = values.data();
    call.k_strides.row = call.v_strides.row = kHeadDim;
    call.head_dim = kHeadDim, call.dtype = DType::f16, call.scale = 1 / std::sqrt(static_cast<float>(kHeadDim));
    return reference_attention(BoundMask(all(), {.queries = 1, .keys = count}), call, {.queries = 1, .keys = count}, 0,
                               0);
  }

  void expect_row(const ReferenceRow& expected, std::int64_t head, std::int64_t row, bool rows_first) const {
    const auto index = static_cast<std::size_t>(row_index(head, row, rows_first));
    std::vector<std::uint16_t> out(kHeadDim);
    float lse = 0;
    copy_out(gpu_, std::as_writable_bytes(std::span(out)), out_.address() + index * kHeadDim * 2);
    copy_out(gpu_, std::as_writable_bytes(std::span(&lse, 1)), lse_.address() + index * sizeof lse);
    double difference = 0, norm = 0;
    for (std::size_t c = 0; c < out.size(); ++c) {
      difference += std::pow(double{float_of_f16(out[c])} - expected.out[c], 2);
      norm += std::pow(expected.out[c], 2);
    }
    const Tolerance allowed = tolerance(DType::f16);
    EXPECT_LE(std::sqrt(difference / norm), allowed.worst_row) << "head " << head << " row " << row;
    EXPECT_NEAR(double{lse}, expected.lse, allowed.lse * std::max(1.0, std::abs(expected.lse)))
        << "head " << head << " row " << row;
  }

 private:
  static std::int64_t row_index(std::int64_t head, std::int64_t row, bool rows_first) {
    return rows_first ? row * kHeads + head : head * kLong + row;
  }

  const cuda::Gpu& gpu_;
  RepeatedRows q_, k_, v_;
  cuda::DeviceMemory out_, lse_;
};

TEST(FarTensorsOnCuda, EqualTheDefinition) {
  STOF_SKIP_WITHOUT("cuda");
  constexpr int kSamples = 64;
  const Device device = open_device("cuda");
  FarTensors tensors(cuda::gpu_of(device));
  const Mask mask = parse("causal & window(100)");
  const AttentionShape shape{.heads = FarTensors::kHeads,
                             .kv_heads = FarTensors::kHeads,
                             .queries = kLong,
                             .keys = kLong,
                             .head_dim = FarTensors::kHeadDim,
                             .dtype = DType::f16};
  const BoundMask bound(mask, {.queries = kLong, .keys = kLong, .heads = shape.heads});
  const AttentionProblem asked = problem_of(plain_view(mask, shape), device);
  for (const bool rows_first : {false, true}) {
    std::vector<ReferenceRow> expected;
    const auto head = [](int i) { return i * (FarTensors::kHeads - 1) / (kSamples - 1); };
    const auto row = [](int i) { return kLong - 1 - i * 2081 % kLong; };
    for (int i = 0; i < kSamples; ++i) expected.push_back(tensors.expected(bound, head(i), row(i), rows_first));
    int kernels = 0;
    for (const AttentionKernel& kernel : device.backend->attention) {
      if (kernel.refuses(asked, device.caps)) continue;
      ++kernels;
      SCOPED_TRACE(fmt::format("{}, {} first", kernel.name, rows_first ? "rows" : "heads"));
      const Attention attention(mask, shape, device, {.kernel = std::string(kernel.name)});
      attention.run(tensors.arguments(rows_first));
      for (int i = 0; i < kSamples; ++i)
        tensors.expect_row(expected[static_cast<std::size_t>(i)], head(i), row(i), rows_first);
    }
    EXPECT_EQ(kernels, is_written_for(device, "stream_attention") ? 3 : 2);
  }
}

}  // namespace
}  // namespace stof
