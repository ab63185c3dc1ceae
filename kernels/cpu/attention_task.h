// SPDX-License-Identifier: Apache-2.0
// What a CPU attention kernel is asked: one row-block, or one query row, of one (item, head).
// Plain pointers and sizes; strides in elements, the innermost dimension is contiguous.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>

namespace stof::cpu {

enum class Storage : std::uint8_t { f32, f16, bf16 };

// What is added to the scores of one head, in units of log2: zero[back] of a key `back` positions in front of its
// query, at most kMargin places beyond `reach` to either side.
struct HeadBias {
  static constexpr int kMargin = 256;
  const float* zero = nullptr;  // null: nothing is added
  int reach = 0;
  int before = 0;  // keys in front of the position of row 0
};

// Pointers to row 0 of the item (q, out, lse) or key 0 of the item (k, v), for one head.
struct AttentionHead {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* out = nullptr;
  float* lse = nullptr;  // may be null
  std::int64_t q_stride = 0, k_stride = 0, v_stride = 0, out_stride = 0, lse_stride = 0;
  int keys = 0;  // no key at or past this one is read
  HeadBias bias = {};
};

struct AttentionNumbers {
  int head_dim = 0;
  Storage storage = Storage::f32;
  float scale = 1.f;
  float softcap = 0.f;      // above 0: scores become softcap * tanh(scale * q k^T / softcap)
  bool bf16_tiles = false;  // multiply bf16 by matrix registers, which the processor has (AMX), in whole tiles
  bool bf16_pairs = false;  // multiply bf16 in pairs, by AVX512_BF16, which the processor has; else widen
  bool far = false;         // rows come from memory, or by long steps: worth bringing near before they are needed
};

// An entry of a block layout: keys [key_start, key_start + block_kv), all allowed when mask is negative.
struct BlockVisit {
  std::int32_t key_start;
  std::int32_t mask;
};

// The tile sizes and masks of one block layout. The mask of key j is mask_row_bytes() bytes, bit l for row l of the
// row-block: transposed against the layout, because the lanes of a vector are query rows.
struct BlockTiles {
  int block_q = 64, block_kv = 64;
  const std::uint8_t* masks = nullptr;  // [mask][block_kv][mask_row_bytes]
  int mask_row_bytes() const { return (block_q + 31) / 32 * 4; }
};

// Rows [row, row + rows) of the head, which are lanes [lane, lane + rows) of the row-block.
struct BlockTask {
  AttentionHead head;
  const BlockVisit* visits = nullptr;
  std::int64_t visit_count = 0;
  // Behind those: what a draft tree leaves of visits that reach among its keys, with masks that lie as those of
  // BlockTiles do.
  const BlockVisit* tree_visits = nullptr;
  std::int64_t tree_visit_count = 0;
  const std::uint8_t* tree_masks = nullptr;
  std::int64_t row = 0;
  int rows = 0, lane = 0;
  const BlockTask* following = nullptr;  // probably the next one of this thread: what it begins with is brought near
};

struct KeyInterval {
  std::int32_t begin, end;  // half-open
};

// What a draft tree leaves of a head's intervals: of keys from `begin` on row i sees key begin + j only where bit j %
// 32 of words[i * row_stride + j / 32] is 1. There is a bit for every key of the head.
struct RowTree {
  const std::uint32_t* words = nullptr;
  std::int64_t row_stride = 0;
  int begin = std::numeric_limits<int>::max();  // below 0 where the first bits are of no key
};

// Rows [row, row + rows) of the head; row row + i has intervals [row_begin[i], row_begin[i + 1]).
struct RowTask {
  AttentionHead head;
  const KeyInterval* intervals = nullptr;
  const std::int64_t* row_begin = nullptr;
  std::int64_t row = 0;
  int rows = 0;
  RowTree tree;
};

}  // namespace stof::cpu
