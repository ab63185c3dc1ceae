// SPDX-License-Identifier: Apache-2.0
// out = softmax(scale q k^T) v over the listed key blocks of one row-block, in one pass over the keys (online softmax).
// Query rows are the lanes: scores are kept transposed, [key][row], so that only q is repacked and k and v are read
// where they lie. Scores are in units of log2: scale / ln 2 is multiplied into q.
#include "kernels/cpu/block_attention.h"

#include "kernels/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/block_attention.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/block_attention-inl.h"

#if HWY_ONCE
namespace stof::cpu {

HWY_EXPORT(attend_row_block);

std::size_t block_attention_scratch(const AttentionNumbers& numbers, const BlockTiles& tiles) {
  constexpr std::size_t kWidest = 32;  // rows of the widest panel; covers the padding of head_dim as well
  const auto padded = [](int n) { return (static_cast<std::size_t>(n) + kWidest - 1) / kWidest * kWidest; };
  const std::size_t rows = padded(tiles.block_q), keys = padded(tiles.block_kv), depth = padded(numbers.head_dim);
  return sizeof(float) * (2 * rows * depth + keys * kWidest + 2 * keys * depth + 2 * rows + 4 * depth + 8 * 16);
}

void block_attention(const AttentionNumbers& numbers, const BlockTiles& tiles, const BlockTask& task, void* scratch) {
  HWY_DYNAMIC_DISPATCH(attend_row_block)(numbers, tiles, task, static_cast<float*>(scratch));
}

}  // namespace stof::cpu
#endif
