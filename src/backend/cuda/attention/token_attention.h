// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/token_attention.cuh, as src/backend/token_attention.h wants it.
#pragma once
#include <string>

#include "src/backend/token_attention.h"

namespace stof::cuda {

extern const TokenAttention token_attention;

inline constexpr const char* kTokenAttentionUnit = "token_attention";
// f16 or bf16; heads of 64 or 128.
std::string token_attention_entry(DType dtype, std::int64_t head_dim);

// How the keys of a text's key head are shared out.
struct TokenSplit {
  int ranks = 1;   // CTAs
  int stages = 1;  // groups of keys that a warp has on their way
  int rounds = 1;  // groups of a warp, one after the other
  double predicted_us = 0;
  friend bool operator==(const TokenSplit&, const TokenSplit&) = default;
};
TokenSplit split_token_attention(const TokenAttentionShape& shape, const DeviceCaps& caps);

}  // namespace stof::cuda
