// SPDX-License-Identifier: Apache-2.0
// Attention of one token for each text, and in one launch with it what else a step of a decoder does between two
// products: norms of heads, turns, keys and values on their way into a cache.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "src/backend/operations.h"
#include "src/layout/row_spans.h"
#include "stof/device.h"

namespace stof {

struct TokenAttentionShape {
  std::int64_t texts = 0, heads = 1, kv_heads = 1, head_dim = 0;
  std::int64_t keys = 0;  // of a text at most, its token's included
  SpanRule allowed = {};  // of them
  DType dtype = DType::f32;
  friend bool operator==(const TokenAttentionShape&, const TokenAttentionShape&) = default;
};

// Of these, how many a token sees at most.
constexpr std::int64_t keys_seen(const TokenAttentionShape& shape) {
  const std::int64_t range = std::min<std::int64_t>(shape.allowed.end, 1) - shape.allowed.begin;
  return std::min(shape.keys, shape.allowed.prefix_end + std::max<std::int64_t>(range, 0));
}

struct TokenAttentionCall {
  const void* x = nullptr;  // [texts, (heads + 2 kv_heads) * head_dim], as a product leaves q, k and v
  void* out = nullptr;      // [texts, heads * head_dim], apart from x
  // As for RowOperations::rotate, angles being null where nothing turns. All that is kept are k and v: text i has rows
  // [i * capacity, (i + 1) * capacity) of `kept.rows`, and its token's is the last of lengths[i].
  RotaryHeads heads = {};
  std::int64_t capacity = 0;
  std::span<const std::int32_t> lengths = {};  // [texts], each at least 1, where the device reads them
  WorkQueue queue = {};
};

// x, out and what is kept lie at multiples of 16 bytes. Positions, places, lengths and keys of the tokens before have
// not been written by what stands directly in front on the stream, nor has anything else but x.
struct TokenAttention {
  // The scale of scores is 1 / sqrt(head_dim).
  std::optional<std::string> (*refuses)(const TokenAttentionShape&, const DeviceCaps&);
  double (*predicted_us)(const TokenAttentionShape&, const DeviceCaps&);
  // Loads what run() launches, which then may be recorded.
  void (*prepare)(const TokenAttentionShape&, const Device&);
  void (*run)(const TokenAttentionShape&, const TokenAttentionCall&);
};

}  // namespace stof
