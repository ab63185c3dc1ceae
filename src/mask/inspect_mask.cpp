// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "src/base/error.h"
#include "src/mask/bind.h"
#include "src/mask/draw.h"
#include "src/mask/row_bits.h"
#include "src/mask/stats.h"
#include "stof/inspect.h"

namespace stof {

Tensor dense_mask(const Mask& mask, const MaskExtent& extent) {
  const BoundMask bound(mask, extent);
  Tensor dense(DType::boolean, {extent.batch, extent.heads, extent.queries, extent.keys});
  auto* allowed = dense.as<std::uint8_t>();
  std::vector<std::uint64_t> words(static_cast<std::size_t>(words_for(extent.keys)));
  for (std::int64_t item = 0; item < extent.batch; ++item)
    for (std::int64_t head = 0; head < extent.heads; ++head) {
      const int group = bound.group_of(item, head);
      for (std::int64_t row = 0; row < extent.queries; ++row) {
        bound.row_bits(group, row, {0, extent.keys}, words);
        for (std::int64_t key = 0; key < extent.keys; ++key)
          *allowed++ = static_cast<std::uint8_t>(words[static_cast<std::size_t>(key / 64)] >> (key % 64) & 1);
      }
    }
  return dense;
}

MaskSummary summarise(const Mask& mask, const MaskExtent& extent) {
  const MaskStats stats = measure(BoundMask(mask, extent), {});
  return {.density = stats.density,
          .allowed_pairs = stats.allowed_pairs,
          .empty_rows = stats.empty_rows,
          .distinct = stats.groups};
}

std::string draw(const Mask& mask, const MaskExtent& extent, std::int64_t item, std::int64_t head) {
  const BoundMask bound(mask, extent);
  if (item < 0 || item >= extent.batch || head < 0 || head >= extent.heads)
    fail(ErrorKind::invalid_argument, "draw: item {}, head {}; accepted: items 0 to {}, heads 0 to {}", item, head,
         extent.batch - 1, extent.heads - 1);
  return draw_text(bound, bound.group_of(item, head));
}

}  // namespace stof
