// SPDX-License-Identifier: Apache-2.0
// A call's tokens as the program sees them: rows of activations, and for each row its token and position.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "src/runtime/rotary_angles.h"
#include "stof/session.h"

namespace stof {

struct RowBatch {
  std::int64_t rows = 0;  // tokens, or texts * longest when padded
  std::int64_t texts = 0, longest = 0;
  bool padded = false;
  std::vector<std::int32_t> tokens, positions, segments;  // [rows]; padding is token 0 at position 0
  std::vector<std::int32_t> offsets;                      // [texts + 1], packed
  std::vector<std::int32_t> lengths;                      // [texts]

  // The first row of a text.
  std::int64_t first_row(std::int64_t text) const {
    return padded ? text * longest : offsets[static_cast<std::size_t>(text)];
  }
};

struct TextLimits {
  std::int64_t vocabulary = 0, longest = 0;
  std::int64_t first_position = 0;  // as in ModelConfig
  std::int64_t long_after = 0;      // as in RotaryScaling

  // Of the first token of a text of so many: the row of the table of positions, or of the one of angles.
  std::int64_t first_table_row(std::int64_t length) const { return first_position + angles_begin(length, long_after); }
};

// Throws invalid_argument naming the text and what is wrong with it.
RowBatch make_rows(const TokenBatch& batch, const TextLimits& limits, bool padded);

}  // namespace stof
