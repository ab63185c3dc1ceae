// SPDX-License-Identifier: Apache-2.0
#include "src/backend/even_items.h"

namespace stof {

bool items_lie_evenly(std::span<const AttentionItem> items) {
  const auto steps_alike = [&](std::size_t i) {
    const AttentionItem &a = items[i - 1], &b = items[i], &first = items[0], &second = items[1];
    const auto alike = [&](std::int64_t AttentionItem::*at) { return b.*at - a.*at == second.*at - first.*at; };
    return b.queries == first.queries && b.keys == first.keys && alike(&AttentionItem::q) && alike(&AttentionItem::k) &&
           alike(&AttentionItem::v) && alike(&AttentionItem::out) && alike(&AttentionItem::lse);
  };
  for (std::size_t i = 1; i < items.size(); ++i)
    if (!steps_alike(i)) return false;
  return true;
}

}  // namespace stof
