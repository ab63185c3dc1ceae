// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/sampling.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <numeric>
#include <vector>

#include "src/base/hash.h"

namespace stof {
namespace {

// -1: some are NaN.
std::int32_t highest(std::span<const float> scores) {
  std::size_t best = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) return -1;
    if (scores[i] > scores[best]) best = i;
  }
  return static_cast<std::int32_t>(best);
}

// The tokens to choose from, sorted no further than is asked for: vocabularies have 150,000 tokens, and a few of them
// most of the probability. Weights are by softmax, of which the largest is 1.
class Candidates {
 public:
  Candidates(std::span<const float> scores, double most, double temperature)
      : scores_(scores), most_(most), temperature_(temperature), tokens_(scores.size()) {
    std::iota(tokens_.begin(), tokens_.end(), 0);
  }

  // Drops all but the likeliest ones, so many.
  void keep(std::size_t count) {
    sort(std::min(count, tokens_.size()));
    tokens_.resize(sorted_);
  }
  // Drops all but the likeliest that have this share of the weights together.
  void keep_share(double share) {
    const double wanted = share * weight();
    double kept = 0;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (i == sorted_) sort(std::min(std::max<std::size_t>(256, 8 * sorted_), tokens_.size()));
      kept += weight(tokens_[i]);
      if (kept >= wanted) return tokens_.resize(i + 1);
    }
  }
  std::int32_t at(double chance) const {
    double left = chance * weight();
    std::int32_t last = tokens_.front();  // that can be chosen at all: by rounding the sum may end before the chance
    for (const std::int32_t token : tokens_) {
      const double of_token = weight(token);
      if (of_token > 0) last = token;
      if ((left -= of_token) < 0) break;
    }
    return last;
  }

 private:
  float score(std::int32_t token) const { return scores_[static_cast<std::size_t>(token)]; }
  double weight(std::int32_t token) const { return std::exp((score(token) - most_) / temperature_); }
  double weight() const {
    double sum = 0;
    for (const std::int32_t token : tokens_) sum += weight(token);
    return sum;
  }
  // So that the first so many are the likeliest, in order; of equal ones the first token is first.
  void sort(std::size_t count) {
    std::partial_sort(
        tokens_.begin() + static_cast<std::ptrdiff_t>(sorted_), tokens_.begin() + static_cast<std::ptrdiff_t>(count),
        tokens_.end(),
        [this](std::int32_t a, std::int32_t b) { return score(a) != score(b) ? score(a) > score(b) : a < b; });
    sorted_ = count;
  }

  std::span<const float> scores_;
  double most_, temperature_;
  std::vector<std::int32_t> tokens_;
  std::size_t sorted_ = 0;
};

}  // namespace

std::int32_t next_token(std::span<const float> scores, const Sampling& sampling, double chance) {
  const std::int32_t best = highest(scores);
  if (best < 0) return best;
  const double most = scores[static_cast<std::size_t>(best)];
  if (sampling.temperature == 0 || std::isinf(most)) return best;
  Candidates candidates(scores, most, sampling.temperature);
  if (sampling.top_k > 0) candidates.keep(static_cast<std::size_t>(sampling.top_k));
  if (sampling.top_p < 1) candidates.keep_share(sampling.top_p);
  return candidates.at(chance);
}

std::vector<std::int32_t> next_tokens(std::span<const float> scores, const Sampling& sampling,
                                      std::span<const double> chances) {
  // To wake threads costs what a few thousand scores take.
  [[maybe_unused]] constexpr std::size_t kWorthThreads = 1 << 14;
  const std::size_t columns = chances.empty() ? 0 : scores.size() / chances.size();
  std::vector<std::int32_t> tokens(chances.size());
  std::vector<std::exception_ptr> errors(chances.size());  // none may leave the parallel region
#pragma omp parallel for schedule(dynamic) if (scores.size() >= kWorthThreads)
  for (std::size_t row = 0; row < chances.size(); ++row) try {
      tokens[row] = next_token(scores.subspan(row * columns, columns), sampling, chances[row]);
    } catch (...) {
      errors[row] = std::current_exception();
    }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return tokens;
}

double chance_of(std::uint64_t seed, std::int64_t text, std::int64_t token) {
  const std::uint64_t mixed =
      splitmix64(splitmix64(splitmix64(seed + 0x9E3779B97F4A7C15ull) ^ static_cast<std::uint64_t>(text)) +
                 static_cast<std::uint64_t>(token) + 0x9E3779B97F4A7C15ull);
  return static_cast<double>(mixed >> 11) * 0x1p-53;
}

}  // namespace stof
