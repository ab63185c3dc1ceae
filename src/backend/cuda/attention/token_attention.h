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

}  // namespace stof::cuda
