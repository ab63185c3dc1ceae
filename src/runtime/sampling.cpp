// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/sampling.h"

#include <algorithm>
#include <cmath>
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

// Tokens with their weights by softmax, of which the largest is 1, sorted no further than is asked for: vocabularies
// have 150,000 tokens, and a few of them most of the probability.
class Candidates {
 public:
  Candidates(std::span<const float> scores, double most, double temperature) {
    all_.reserve(scores.size());
    for (std::size_t i = 0; i < scores.size(); ++i)
      all_.push_back({std::exp((scores[i] - most) / temperature), static_cast<std::int32_t>(i)});
  }

  // Drops all but the first so many.
  void keep(std::size_t count) {
    sort(count);
    all_.resize(std::min(count, all_.size()));
  }
  // Drops all behind the first that have this share of the weights together.
  void keep_share(double share) {
    const double wanted = share * weight();
    double kept = 0;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (i == sorted_) sort(std::max<std::size_t>(256, 8 * sorted_));
      kept += all_[i].weight;
      if (kept >= wanted) return all_.resize(i + 1);
    }
  }
  std::int32_t at(double chance) const {
    double left = chance * weight();
    for (const Candidate& candidate : all_)
      if ((left -= candidate.weight) < 0) return candidate.token;
    // By rounding: the last one that can be chosen at all.
    return std::find_if(all_.rbegin(), all_.rend(), [](const Candidate& c) { return c.weight > 0; })->token;
  }

 private:
  struct Candidate {
    double weight;
    std::int32_t token;
  };
  double weight() const {
    double sum = 0;
    for (const Candidate& candidate : all_) sum += candidate.weight;
    return sum;
  }
  // So that the first so many are the likeliest, in order; of equal ones the first token is first.
  void sort(std::size_t count) {
    sorted_ = std::min(count, all_.size());
    std::partial_sort(all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(sorted_), all_.end(),
                      [](const Candidate& a, const Candidate& b) {
                        return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
                      });
  }

  std::vector<Candidate> all_;
  std::size_t sorted_ = 0;
};

}  // namespace

std::int32_t next_token(std::span<const float> scores, const Sampling& sampling, double chance) {
  const std::int32_t best = highest(scores);
  const double most = scores[static_cast<std::size_t>(best)];
  if (sampling.temperature == 0 || std::isinf(most)) return best;
  Candidates candidates(scores, most, sampling.temperature);
  if (sampling.top_k > 0) candidates.keep(static_cast<std::size_t>(sampling.top_k));
  if (sampling.top_p < 1) candidates.keep_share(sampling.top_p);
  return candidates.at(chance);
}

double chance_of(std::uint64_t seed, std::int64_t text, std::int64_t token) {
  const std::uint64_t mixed =
      splitmix64(splitmix64(splitmix64(seed + 0x9E3779B97F4A7C15ull) ^ static_cast<std::uint64_t>(text)) +
                 static_cast<std::uint64_t>(token) + 0x9E3779B97F4A7C15ull);
  return static_cast<double>(mixed >> 11) * 0x1p-53;
}

}  // namespace stof
