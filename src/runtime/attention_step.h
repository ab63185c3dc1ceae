// SPDX-License-Identifier: Apache-2.0
// The step of a program that attends: to the rows of the call, or to keys that a cache has of the calls before.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "src/backend/contract.h"
#include "src/runtime/cache_layer.h"
#include "src/runtime/slot.h"
#include "src/runtime/weight_store.h"

namespace stof {

// By what heads of q and k are turned, and normed before.
struct Turning {
  std::shared_ptr<const void> angles;
  std::vector<std::shared_ptr<const void>> scales;  // that the norms point to
  HeadNorms norms = {};
};
// Of what an attention reads: what it was before.
struct TurnedInFront {
  Slot x;
  Turning turning;
};

// Whether a step of the frame does what stands in front of a site's attention together with it.
inline const TokenAttentionShape* joined_at(const Frame& frame, std::size_t site) {
  if (frame.joined == nullptr || !(*frame.joined)[site]) return nullptr;
  return &*(*frame.joined)[site];
}

// Of a node whose scores have one, else null. Nodes with one table share what is made of it.
std::shared_ptr<const RelativeBias> relative_bias_of(const op::Scores& scores, const Node& node, WeightStore& weights,
                                                     const Device& device);

struct AttentionStep {
  std::array<Slot, 3> qkv;
  std::array<std::int64_t, 3> first_column;  // of each, in rows that are `stride` elements apart
  std::int64_t stride = 0;
  Slot out;
  std::int64_t heads = 1, kv_heads = 1, head_dim = 0;
  DType dtype = DType::f32;
  op::Scores scores = {};
  std::shared_ptr<const RelativeBias> bias = {};  // of those that have one
  std::size_t site = 0;                           // whose plan it goes by
  std::optional<CacheLayer> layer = {};  // k and v beside each other in one row can be kept; nothing: they are apart
  std::optional<TurnedInFront> in_front = {};  // where a Rotate writes the layer's keys
  bool may_join = false;                       // all that a step does between two products in one launch
  const Backend* backend = nullptr;

  void operator()(const Frame& frame) const;

 private:
  std::byte* data_of(int which, const Frame& frame) const;
  TensorView rows_of(int which, const Frame& frame) const;
  std::byte* cached_rows(const Frame& frame) const;
  bool copies_keys(const Frame& frame) const;
  void keep_keys(const Frame& frame) const;
  void join(const Frame& frame, TokenAttentionShape shape) const;
  AttentionArguments among_themselves(const Frame& frame) const;
  AttentionArguments with_cached_keys(const Frame& frame) const;
};

}  // namespace stof
