// SPDX-License-Identifier: Apache-2.0
// Attention under a mask, checked against its definition. Start reading here: Mask, Attention, run.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "stof/attention.h"

namespace {

constexpr std::int64_t kHeads = 4, kLength = 512, kHeadDim = 64;

stof::Tensor random_tensor(std::mt19937& random) {
  stof::Tensor tensor(stof::DType::f32, {1, kHeads, kLength, kHeadDim});
  std::normal_distribution<float> normal;
  std::generate_n(tensor.as<float>(), tensor.size(), [&] { return normal(random); });
  return tensor;
}

// The mask below, written out: each token sees the 64 before it; the first 4 see and are seen by all.
bool allowed(std::int64_t q, std::int64_t k) { return (k <= q && q - k <= 64) || q < 4 || k < 4; }

// out[q] = sum over allowed k of softmax(q.k / sqrt(d)) v[k], in double, for one query row of one head.
std::vector<double> naive_row(const float* query, const float* keys, const float* values, std::int64_t position) {
  std::vector<double> out(kHeadDim);
  double total = 0;
  for (std::int64_t k = 0; k < kLength; ++k) {
    if (!allowed(position, k)) continue;
    double score = 0;
    for (std::int64_t d = 0; d < kHeadDim; ++d) score += double{query[d]} * keys[k * kHeadDim + d];
    const double weight = std::exp(score / std::sqrt(double{kHeadDim}));
    total += weight;
    for (std::int64_t d = 0; d < kHeadDim; ++d) out[static_cast<std::size_t>(d)] += weight * values[k * kHeadDim + d];
  }
  for (double& value : out) value /= total;
  return out;
}

}  // namespace

int main() {
  std::mt19937 random(1);
  const stof::Tensor q = random_tensor(random), k = random_tensor(random), v = random_tensor(random);
  const stof::Tensor out(stof::DType::f32, q.shape());

  const stof::Mask mask = (stof::causal() & stof::window(64)) | stof::global_tokens(4);  // or stof::parse("...")
  const stof::AttentionShape shape{
      .batch = 1, .heads = kHeads, .kv_heads = kHeads, .queries = kLength, .keys = kLength, .head_dim = kHeadDim};
  const stof::Attention attention(mask, shape, stof::open_device("cpu"));  // plans once
  attention.run({.q = q.view(), .k = k.view(), .v = v.view(), .out = out.view()});

  double worst = 0;
  for (std::int64_t row = 0; row < kHeads * kLength; ++row) {
    const std::int64_t head_begin = row / kLength * kLength * kHeadDim;
    const std::vector<double> expected = naive_row(q.as<float>() + row * kHeadDim, k.as<float>() + head_begin,
                                                   v.as<float>() + head_begin, row % kLength);
    for (std::int64_t d = 0; d < kHeadDim; ++d)
      worst = std::max(worst, std::abs(expected[static_cast<std::size_t>(d)] - out.as<float>()[row * kHeadDim + d]));
  }
  std::printf("mask: %s\nlargest difference from the definition: %.2g\n", mask.text().c_str(), worst);
  return worst < 1e-5 ? 0 : 1;  // false for NaN, too
}
