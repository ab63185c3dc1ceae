// SPDX-License-Identifier: Apache-2.0
// Scores of the vocabulary that a model caps, as Gemma 2 does. The order stays: what is likeliest is asked for without.
#pragma once
#include <span>

namespace stof {

// Each becomes cap * tanh(score / cap); NaN stays.
void cap_scores(std::span<float> scores, double cap);

}  // namespace stof
