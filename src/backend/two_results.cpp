// SPDX-License-Identifier: Apache-2.0
#include "src/backend/two_results.h"

#include <fmt/format.h>

namespace stof {

Refusal refuses_result(const AttentionShape& shape, double most_bytes) {
  const double bytes = result_bytes(shape);
  if (bytes <= most_bytes) return std::nullopt;
  return fmt::format("a second result would take {:.3g} GB; at most {:.3g} are kept", 1e-9 * bytes, 1e-9 * most_bytes);
}

TwoResults::TwoResults(const AttentionCall& call, const ResultMemory& memory)
    : first_items(call.items.begin(), call.items.end(), call.memory),
      second_items(call.items.begin(), call.items.end(), call.memory),
      first(call),
      second(call) {
  const std::int64_t rows = call.items.front().queries;
  first.packed = second.packed = false;  // items that lie evenly are those of a padded call
  first.lse = memory.lse;
  second.lse = memory.other_lse;
  first.lse_strides = second.lse_strides = {.head = rows, .row = 1};
  second.out = memory.other_out;
  second.out_strides = {.head = rows * call.head_dim, .row = call.head_dim};
  for (std::size_t i = 0; i < first_items.size(); ++i) {
    first_items[i].lse = second_items[i].lse = static_cast<std::int64_t>(i) * call.heads * rows;
    second_items[i].out = second_items[i].lse * call.head_dim;
  }
  first.items = first_items;
  second.items = second_items;
}

}  // namespace stof
