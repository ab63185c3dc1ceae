// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/logit_cap.h"

#include <cmath>
#include <cstdint>

namespace stof {

void cap_scores(std::span<float> scores, double cap) {
  const auto limit = static_cast<float>(cap), factor = static_cast<float>(1 / cap);
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < std::ssize(scores); ++i) {
    float& score = scores[static_cast<std::size_t>(i)];
    score = limit * std::tanh(score * factor);
  }
}

}  // namespace stof
