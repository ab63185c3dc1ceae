// SPDX-License-Identifier: Apache-2.0
// The next token of a text, by the scores of the vocabulary.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace stof {

struct Sampling {
  double temperature = 0;  // 0: the token with the highest score, of equal ones the first
  std::int64_t top_k = 0;  // of the tokens with the highest scores alone; 0: of all
  double top_p = 1;        // of the likeliest ones that have so much of the probability together
};

// By a number in [0, 1), where there is something to choose. -1 where a score is NaN, as RowOperations::highest has it.
std::int32_t next_token(std::span<const float> scores, const Sampling& sampling, double chance);

// The same of each row of scores, [chances][columns], by its chance; rows are gone through side by side.
std::vector<std::int32_t> next_tokens(std::span<const float> scores, const Sampling& sampling,
                                      std::span<const double> chances);

// In [0, 1), the same for equal arguments: what a text becomes does not depend on those that run beside it.
double chance_of(std::uint64_t seed, std::int64_t text, std::int64_t token);

}  // namespace stof
