// SPDX-License-Identifier: Apache-2.0
#include "src/attention/alike_heads.h"

namespace stof {
namespace {

bool share_masks(const BoundMask& mask, std::int64_t heads) {
  if (mask.groups() == 1) return true;
  for (std::int64_t item = 0; item < mask.extent().batch; ++item)
    for (std::int64_t head = 0; head < mask.extent().heads; ++head)
      if (mask.group_of(item, head) != mask.group_of(item, head / heads * heads)) return false;
  return true;
}

}  // namespace

std::int64_t alike_heads(const BoundMask& mask, const AttentionShape& shape) {
  const std::int64_t of_key_head = shape.heads / shape.kv_heads;
  std::int64_t heads = of_key_head;
  while (of_key_head % heads != 0 || !share_masks(mask, heads)) --heads;
  return heads;
}

}  // namespace stof
