// SPDX-License-Identifier: Apache-2.0
// The .npy inputs of `stof attention`, checked: shapes, lengths, and NaN, infinities, or what a dtype has no room for,
// where a result could see it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "stof/tensor.h"

namespace stof::cli {

enum class TensorLayout : std::uint8_t { bhsd, bshd };

struct AttentionInput {
  std::string file;
  Tensor tensor;    // as in the file, or converted
  TensorView view;  // [batch, heads, rows, head_dim], whatever the layout in memory
};

struct InputLengths {
  std::vector<std::int32_t> q, kv;  // [batch] each; empty: full length
};

TensorLayout parse_layout(const std::string& text);
// The view [batch, heads, rows, head_dim] of a tensor in the layout.
TensorView heads_first(const Tensor& tensor, TensorLayout layout);

// Throws bad_file for another rank or dtype.
AttentionInput read_input(const std::string& file, TensorLayout layout);
// i4 or i8, [batch] or [batch, 2]. Throws bad_file for anything else, invalid_argument for a length out of range.
InputLengths read_lengths(const std::string& file, const AttentionInput& q, const AttentionInput& k);
// Throws invalid_argument naming the file and the first index that holds NaN or an infinity inside the lengths
// ([batch], or empty).
void refuse_not_finite(const AttentionInput& input, const std::vector<std::int32_t>& lengths, TensorLayout layout);
// The same of a finite number that the dtype would round to infinity.
void refuse_overflow(const AttentionInput& input, const std::vector<std::int32_t>& lengths, TensorLayout layout,
                     DType dtype);

}  // namespace stof::cli
