// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "src/base/error.h"
#include "src/base/hash.h"

namespace stof {
namespace {

std::int32_t highest(std::span<const float> scores) {
  std::size_t best = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) fail(ErrorKind::invalid_argument, "the score of token {} is NaN", i);
    if (scores[i] > scores[best]) best = i;
  }
  return static_cast<std::int32_t>(best);
}

// The tokens to choose from, from the likeliest on; of equal ones the first is first.
std::vector<std::int32_t> candidates(std::span<const float> scores, std::int64_t top_k) {
  std::vector<std::int32_t> tokens(scores.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const float x = scores[static_cast<std::size_t>(a)], y = scores[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const auto count = top_k > 0 ? std::min(top_k, std::ssize(tokens)) : std::ssize(tokens);
  std::partial_sort(tokens.begin(), tokens.begin() + count, tokens.end(), before);
  tokens.resize(static_cast<std::size_t>(count));
  return tokens;
}

}  // namespace

std::int32_t next_token(std::span<const float> scores, const Sampling& sampling, double chance) {
  const std::int32_t best = highest(scores);
  const double most = scores[static_cast<std::size_t>(best)];
  if (sampling.temperature == 0 || std::isinf(most)) return best;
  const std::vector<std::int32_t> tokens = candidates(scores, sampling.top_k);
  std::vector<double> weights;
  for (const std::int32_t token : tokens)
    weights.push_back(std::exp((scores[static_cast<std::size_t>(token)] - most) / sampling.temperature));
  const double wanted = sampling.top_p * std::accumulate(weights.begin(), weights.end(), 0.0);
  std::size_t count = 0;
  double kept = 0;
  while (count < weights.size() && (count == 0 || kept < wanted)) kept += weights[count++];
  double left = chance * kept;
  for (std::size_t i = 0; i + 1 < count; ++i)
    if ((left -= weights[i]) < 0) return tokens[i];
  return tokens[count - 1];
}

double chance_of(std::uint64_t seed, std::int64_t text, std::int64_t token) {
  const std::uint64_t mixed =
      splitmix64(splitmix64(splitmix64(seed + 0x9E3779B97F4A7C15ull) ^ static_cast<std::uint64_t>(text)) +
                 static_cast<std::uint64_t>(token) + 0x9E3779B97F4A7C15ull);
  return static_cast<double>(mixed >> 11) * 0x1p-53;
}

}  // namespace stof
