// SPDX-License-Identifier: Apache-2.0
// The step of a program that attends: to the rows of the call, or to keys that a cache has of the calls before.
#pragma once
#include <array>
#include <functional>
#include <optional>

#include "src/runtime/cache_layer.h"
#include "src/runtime/slot.h"

namespace stof {

struct AttentionStep {
  std::array<Slot, 3> qkv;
  std::array<std::int64_t, 3> first_column;  // of each, in rows that are `stride` elements apart
  std::int64_t stride = 0;
  Slot out;
  std::int64_t heads = 1, kv_heads = 1, head_dim = 0;
  DType dtype = DType::f32;
  std::size_t site = 0;                  // whose plan it goes by
  std::optional<CacheLayer> layer = {};  // k and v beside each other in one row can be kept; nothing: they are apart
  void (*copy)(const RowCopies&) = nullptr;

  void operator()(const Frame& frame) const;

 private:
  std::byte* data_of(int which, const Frame& frame) const;
  TensorView rows_of(int which, const Frame& frame) const;
  std::byte* cached_rows(const Frame& frame) const;
  bool copies_keys(const Frame& frame) const;
  void keep_keys(const Frame& frame) const;
  AttentionArguments among_themselves(const Frame& frame) const;
  AttentionArguments with_cached_keys(const Frame& frame) const;
};

}  // namespace stof
