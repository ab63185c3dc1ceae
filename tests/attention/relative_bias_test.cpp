// SPDX-License-Identifier: Apache-2.0
// Relative biases against a loop that adds them as their documentation says, and what they refuse.
#include "stof/relative_bias.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "src/attention/host_tensors.h"
#include "stof/attention.h"
#include "tests/attention/devices.h"
#include "tests/expect_error.h"

namespace stof {
namespace {

constexpr auto kInvalid = ErrorKind::invalid_argument;
constexpr std::int64_t kHeads = 4, kQueries = 70, kKeys = 90, kDim = 16;

AttentionShape biased_shape() {
  return {
      .batch = 1, .heads = kHeads, .kv_heads = 2, .queries = kQueries, .keys = kKeys, .head_dim = kDim, .biased = true};
}

struct Tensors {
  Tensor q{DType::f32, {1, kHeads, kQueries, kDim}}, k{DType::f32, {1, 2, kKeys, kDim}},
      v{DType::f32, {1, 2, kKeys, kDim}};
  Tensor out{DType::f32, {1, kHeads, kQueries, kDim}};

  Tensors() {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (Tensor* tensor : {&q, &k, &v})
      for (std::int64_t i = 0; i < tensor->size(); ++i) tensor->view().as<float>()[i] = normal(random);
  }
  AttentionArguments arguments() const { return {.q = q.view(), .k = k.view(), .v = v.view(), .out = out.view()}; }
};

// Query i sees keys up to its own position, i + kKeys - kQueries.
template <class Bias>
double most_difference(const Tensors& tensors, const Bias& bias) {
  const float *const q = tensors.q.view().as<float>(), *const k = tensors.k.view().as<float>(),
                     *const v = tensors.v.view().as<float>(), *const out = tensors.out.view().as<float>();
  double most = 0;
  for (std::int64_t h = 0; h < kHeads; ++h)
    for (std::int64_t i = 0; i < kQueries; ++i) {
      double sum = 0, expected[kDim] = {};
      for (std::int64_t j = 0; j <= i + kKeys - kQueries; ++j) {
        double dot = 0;
        for (std::int64_t c = 0; c < kDim; ++c)
          dot += double{q[(h * kQueries + i) * kDim + c]} * double{k[(h / 2 * kKeys + j) * kDim + c]};
        const double weight = std::exp(dot / 4 + double{bias(h, j - (i + kKeys - kQueries))});
        sum += weight;
        for (std::int64_t c = 0; c < kDim; ++c) expected[c] += weight * double{v[(h / 2 * kKeys + j) * kDim + c]};
      }
      for (std::int64_t c = 0; c < kDim; ++c)
        most = std::max(most, std::abs(expected[c] / sum - double{out[(h * kQueries + i) * kDim + c]}));
    }
  return most;
}

class RelativeBiases : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override { STOF_SKIP_WITHOUT(std::get<0>(GetParam())); }

  static void run(const Tensors& tensors, const RelativeBias& bias) {
    const auto& [name, kernel] = GetParam();
    const Device device = open_device(name);
    AttentionArguments arguments = tensors.arguments();
    arguments.relative_bias = &bias;
    run_host_tensors(Attention(causal(), biased_shape(), device, {.kernel = kernel}), arguments, device);
  }
};

TEST_P(RelativeBiases, AreAddedByDistance) {
  constexpr std::int64_t kReach = 11;
  std::vector<float> values;
  for (std::int64_t i = 0; i < kHeads * (2 * kReach + 1); ++i) values.push_back(static_cast<float>(i * 37 % 23) / 5);
  const Tensors tensors;
  run(tensors, RelativeBias(values, kHeads, kReach, open_device("cpu")));
  EXPECT_LT(most_difference(tensors,
                            [&](std::int64_t head, std::int64_t distance) {
                              return values[static_cast<std::size_t>(head * (2 * kReach + 1) + kReach +
                                                                     std::clamp(distance, -kReach, kReach))];
                            }),
            1e-5);
}

TEST_P(RelativeBiases, OfAlibiFallLinearly) {
  const std::vector<float> slopes = {0.5f, 0.25f, 0.125f, 2.f};
  const Tensors tensors;
  run(tensors, RelativeBias::alibi(slopes, kKeys - 1, open_device("cpu")));
  EXPECT_LT(most_difference(tensors,
                            [&](std::int64_t head, std::int64_t distance) {
                              return -slopes[static_cast<std::size_t>(head)] * static_cast<float>(std::abs(distance));
                            }),
            1e-5);
}

// The plan serves calls without one as any other plan does.
TEST_P(RelativeBiases, MayBeLeftOut) {
  const Tensors tensors;
  const auto& [name, kernel] = GetParam();
  const Device device = open_device(name);
  run_host_tensors(Attention(causal(), biased_shape(), device, {.kernel = kernel}), tensors.arguments(), device);
  EXPECT_LT(most_difference(tensors, [](std::int64_t, std::int64_t) { return 0.f; }), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Cpu, RelativeBiases,
                         testing::Combine(testing::Values("cpu"), testing::Values("block_attention", "row_attention")));
INSTANTIATE_TEST_SUITE_P(Cuda, RelativeBiases,
                         testing::Combine(testing::Values("cuda"), testing::Values("row_attention")));

TEST(RelativeBiasMessages, NameWhatIsAccepted) {
  const Device cpu = open_device("cpu");
  const std::vector<float> six(6), nine(9);
  EXPECT_ERROR(RelativeBias(six, 0, 1, cpu), kInvalid, "relative bias: heads = 0; accepted: 1..65535");
  EXPECT_ERROR(RelativeBias(six, 2, -1, cpu), kInvalid, "relative bias: reach = -1; accepted: 0..16777216");
  EXPECT_ERROR(RelativeBias(nine, 2, 1, cpu), kInvalid,
               "relative bias: 9 values for 2 heads with a reach of 1; accepted: 6");
  const std::vector<float> infinite = {0, 1, 2, 3, std::numeric_limits<float>::infinity(), 5};
  EXPECT_ERROR(RelativeBias(infinite, 2, 1, cpu), kInvalid,
               "relative bias: inf of head 1 at distance 0; accepted: -1048576..1048576");
  EXPECT_ERROR(RelativeBias(six, 65535, 1 << 24, cpu), kInvalid,
               "relative bias: 65535 heads with a reach of 16777216; accepted: at most 15 heads then");
  EXPECT_ERROR(RelativeBias::alibi({}, 4, cpu), kInvalid, "relative bias: heads = 0; accepted: 1..65535");
  EXPECT_ERROR(RelativeBias::alibi(six, std::numeric_limits<std::int64_t>::max(), cpu), kInvalid,
               "relative bias: reach = 9223372036854775807; accepted: 0..16777216");
  EXPECT_ERROR(RelativeBias::alibi(six, -4, cpu), kInvalid, "relative bias: reach = -4; accepted: 0..16777216");
}

TEST(RelativeBiasMessages, OfCallsSayWhatThePlanTakes) {
  const Device cpu = open_device("cpu");
  const Tensors tensors;
  const RelativeBias bias(std::vector<float>(6), 2, 1, cpu);
  AttentionArguments arguments = tensors.arguments();
  arguments.relative_bias = &bias;
  EXPECT_ERROR(Attention(causal(), biased_shape(), cpu).run(arguments), kInvalid,
               "attention: the relative bias has 2 heads; this plan takes 4");
  AttentionShape plain = biased_shape();
  plain.biased = false;
  EXPECT_ERROR(Attention(causal(), plain, cpu).run(arguments), kInvalid,
               "attention: a relative bias with a plan for none; accepted where the plan's shape is biased");
}

}  // namespace
}  // namespace stof
