// SPDX-License-Identifier: Apache-2.0
// Prompts for the small checkpoints of tests/data/families.
#pragma once
#include <cstdint>
#include <vector>

#include "src/base/hash.h"
#include "stof/session.h"

namespace stof {

constexpr std::int64_t kTokens = 800, kLongest = 200;  // of the checkpoints

// Of so many tokens each, any of them.
inline TokenBatch random_prompts(const std::vector<std::int64_t>& lengths, std::uint64_t seed) {
  TokenBatch batch;
  for (const std::int64_t length : lengths) {
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < length; ++i)
      ids.push_back(static_cast<std::int32_t>(splitmix64(seed += 0x9E3779B97F4A7C15ull) % kTokens));
    batch.add(ids);
  }
  return batch;
}

}  // namespace stof
