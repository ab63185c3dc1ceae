// SPDX-License-Identifier: Apache-2.0
// An attention problem with random inputs, and the check that its output passes before its time is told.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "src/mask/bind.h"
#include "stof/attention.h"

namespace stof::cli {

struct AttentionProblemInputs {
  AttentionShape shape;
  Tensor q, k, v, out;                    // [batch, heads, rows, head_dim]
  float softcap = 0;                      // 0: none
  std::optional<RelativeBias> bias = {};  // of the host

  explicit AttentionProblemInputs(const AttentionShape& shape);  // standard normal values, the same every time
  void add_bias(std::int64_t reach);                             // standard normal values, too
  AttentionArguments arguments() const;
  void poison() const;  // out becomes NaN
};

struct AttentionError {
  double frobenius = 0, worst_row = 0;  // relative to the reference
};

// Compares out with the definition in double: every row of a small problem, a sample of a large one, which has first,
// last and random rows of all items and heads. Throws internal when a bound is passed or anything in out is not finite.
AttentionError check_attention(const BoundMask& mask, const AttentionProblemInputs& problem);

}  // namespace stof::cli
