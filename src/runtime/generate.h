// SPDX-License-Identifier: Apache-2.0
// Token after token for a batch of texts, until each has ended.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/runtime/batch.h"
#include "src/runtime/generation.h"
#include "src/runtime/program.h"
#include "stof/session.h"

namespace stof {

struct GenerateCall {
  GenerationPrograms programs;  // whose result are scores
  GenerationLanes& lanes;       // of the programs' device
  TextLimits limits;
  const TokenBatch& prompts;
  std::span<const std::int64_t> numbers;  // of the texts, for the options' calls and chances
  std::span<const std::int32_t> ends;     // tokens behind which a text ends
  std::optional<double> logit_cap = {};   // see cap_scores()
  const GenerateOptions& options;
};

// Throws invalid_argument for options out of range, and for a text without room for a token more.
void check(const GenerateOptions& options);
// Throws invalid_argument for a text, whose number this is, without a position for one token more.
void check_room(std::int64_t text, std::int64_t length, const TextLimits& limits);
// What comes behind each prompt, the token that ends it included.
std::vector<std::vector<std::int32_t>> generate_tokens(const GenerateCall& call);

}  // namespace stof
