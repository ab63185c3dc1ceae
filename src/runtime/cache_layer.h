// SPDX-License-Identifier: Apache-2.0
// Where the keys and values of each layer lie in a cache of texts that go on, and who writes them there.
#pragma once
#include <optional>
#include <vector>

#include "src/runtime/program.h"

namespace stof {

// Of a cache (CachedKeys) the rows of one layer: k of all heads and then v.
struct CacheLayer {
  std::int64_t column = 0;  // of all layers before this one
  std::int64_t width = 0;
  std::size_t attention = 0;  // the node that reads them
  // The Rotate that writes them in steps, for nothing but this layer reads what it turns; else attention copies them.
  std::optional<std::size_t> rotation = {};

  std::byte* rows(const CachedKeys& cached, DType dtype) const;
};

// By node: of each AttendPacked its layer, and of each Rotate the one that it writes, if any.
std::vector<std::optional<CacheLayer>> cache_layers(const Graph& graph);

}  // namespace stof
