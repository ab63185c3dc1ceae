// SPDX-License-Identifier: Apache-2.0
// Descriptions of tensors for the copy engine of sm_90, checked before the driver sees them: it would only say
// "invalid argument".
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/backend/cuda/driver/types.h"

namespace stof::cuda {

// Up to five dimensions, the contiguous one first. Dimensions of one element may have any stride.
struct TensorBox {
  static constexpr std::size_t kRank = 5;
  std::string_view name;  // in refusals
  TensorElement element = TensorElement::f16;
  const void* base = nullptr;
  std::array<std::int64_t, kRank> sizes = {};        // in elements
  std::array<std::int64_t, kRank - 1> strides = {};  // of the dimensions after the first, in elements
  std::array<int, kRank> box = {};
  TensorSwizzle swizzle = TensorSwizzle::bytes_128;
  TensorPromotion promotion = TensorPromotion::bytes_128;  // what the L2 reads from memory at a time
  std::uint32_t rank = kRank;                              // the dimensions after it have one element
};

// Whether the copy engine takes a tensor with this address and these strides. Calls ask it: it allocates nothing.
bool fits(const TensorBox& tensor);
// Why not; empty when it does.
std::optional<std::string> refuses(const TensorBox& tensor);

// Throws unsupported with the refusal.
TensorMapBytes encode(const TensorBox& tensor);

}  // namespace stof::cuda
