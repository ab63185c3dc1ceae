// SPDX-License-Identifier: Apache-2.0
// What the steps of block-wise attention are given: a block of keys, a panel of query rows, and where they meet.
#if defined(STOF_KERNELS_CPU_BLOCK_PARTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STOF_KERNELS_CPU_BLOCK_PARTS_INL_H_
#undef STOF_KERNELS_CPU_BLOCK_PARTS_INL_H_
#else
#define STOF_KERNELS_CPU_BLOCK_PARTS_INL_H_
#endif
#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>

#include "kernels/cpu/attention_task.h"
#include "kernels/cpu/tile_matmul-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stof::cpu::HWY_NAMESPACE {

constexpr int kMaxBlockKv = 256;
constexpr int kGroups = kPanel / kRows;  // of rows, in the product with the values
// The running maximum may lag behind by this many powers of two before sums and outputs are rescaled: weights stay
// below 2^8, and most blocks rescale nothing.
constexpr float kLag = 8.f;

struct Rows {
  const std::byte* at;
  std::int64_t stride;  // in bytes
  const std::byte* row(int j) const { return at + j * stride; }
  const float* words(int j) const { return reinterpret_cast<const float*>(row(j)); }
};

// Rows that are needed next, brought into the second-level cache between the tiles of scores: all at once they would
// wait for one another, and left alone each first touch of a row waits for memory.
struct Ahead {
  static constexpr int kMost = 4;
  Rows rows[kMost] = {};
  int counts[kMost] = {};
  int lines = 0;  // of 64 bytes in a row

  void add(const Rows& more, int count) {
    for (int i = 0; i < kMost; ++i)
      if (counts[i] == 0) {
        rows[i] = more;
        counts[i] = count;
        return;
      }
  }

  // Of rows [begin, begin + kRows) the `part`-th of `parts` parts.
  HWY_INLINE void fetch(int begin, int part, int parts) const {
    const int first = part * lines / parts, last = (part + 1) * lines / parts;
    if (first == last) return;
    for (int i = 0; i < kMost && counts[i] > 0; ++i) {
      const std::byte* at = rows[i].row(begin) + first * 64;
      for (int r = std::min(kRows, counts[i] - begin); r > 0; --r, at += rows[i].stride) {
        __builtin_prefetch(at, 0, 2);
        for (int line = 1; line < last - first; ++line) __builtin_prefetch(at + line * 64, 0, 2);
      }
    }
  }
};

struct Block {
  Rows k;  // a row a key
  Rows v;  // a row for the keys of a word, readable to whole vectors
  int keys, head_dim, depth;
  const std::uint8_t* mask = nullptr;  // [keys][mask_row_bytes], or null: every key is allowed
  int mask_row_bytes = 0;
  Ahead ahead;
  int panels = 1;      // that visit this block
  float unit = 1.f;    // of scores in pairs, which are not scaled before: their factor to units of log2, above 0
  float cap = 0.f;     // in units of log2: scores become cap * tanh(factor * score); 0: they are not capped
  float factor = 1.f;  // of scores that are capped or biased, whose unit is 1
  HeadBias bias = {};
  int first_key = 0;
  // Scores are made others, in units of log2, before they are weighed.
  bool changes_scores() const { return cap > 0 || bias.zero != nullptr; }
};

struct Panel {
  const float* q;    // [words of head_dim][kPanel]
  float* o;          // [kPanel][depth]
  float* s;          // [block_kv][kPanel]: scores, then words of weights
  float *top, *sum;  // [kPanel]: running maximum and sum of weights
  float* turned;     // [block_kv / 2][kPanel]: weights as matrix registers take them
  int mask_offset;   // bytes into a mask row
  int index;         // among those that visit the block
  int position;      // of the first row
};

// Where something is allowed: per tile of kRows keys, and per group of kRows rows the keys it needs.
struct Live {
  bool tile[kMaxBlockKv / kRows];
  int begin[kGroups], end[kGroups];
};

HWY_INLINE std::uint32_t mask_word(const Block& block, const Panel& panel, int key) {
  std::uint32_t word = 0;
  std::memcpy(&word, block.mask + std::int64_t{key} * block.mask_row_bytes + panel.mask_offset, kPanel / 8);
  return word;
}

HWY_INLINE hn::Mask<Floats> lanes_of(std::uint32_t word, int vector) {
  const std::uint32_t bits = word >> (vector * kLanes);
  HWY_ALIGN std::uint8_t bytes[8];
  std::memcpy(bytes, &bits, sizeof(bits));
  return hn::LoadMaskBits(Floats(), bytes);
}

// Scores of kRows keys from j on, of which those past the last one are the last one's; with matrix registers they lie
// in panel.s.
template <class Words>
HWY_INLINE void read_scores(const Block& block, const Panel& panel, int j, Accumulators& scores) {
  if constexpr (Words::kTiles) {
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const float* const s = panel.s + std::min(j + r, block.keys - 1) * kPanel;
      for (int v = 0; v < kVectors; ++v) scores.at[r][v] = hn::Load(Floats(), s + v * kLanes);
    }
  } else {
    const std::byte* k[kRows];
    for (int r = 0; r < kRows; ++r) k[r] = block.k.row(std::min(j + r, block.keys - 1));
    score_tile<Words>(k, panel.q, block.head_dim / Words::kEach, scores);
  }
}

HWY_INLINE Live all_live(int keys) {
  Live live;
  std::fill(std::begin(live.tile), std::end(live.tile), true);
  std::fill(std::begin(live.begin), std::end(live.begin), 0);
  std::fill(std::begin(live.end), std::end(live.end), keys);
  return live;
}

inline Live live_parts(const Block& block, const Panel& panel) {
  Live live;
  std::fill(std::begin(live.begin), std::end(live.begin), block.keys);
  std::fill(std::begin(live.end), std::end(live.end), 0);
  for (int j = 0; j < block.keys; j += kRows) {
    const int end = std::min(j + kRows, block.keys);
    std::uint32_t any = 0;
    for (int i = j; i < end; ++i) any |= mask_word(block, panel, i);
    live.tile[j / kRows] = any != 0;
    for (int group = 0; group < kGroups; ++group) {
      if (((any >> (group * kRows)) & ((1u << kRows) - 1)) == 0) continue;
      live.begin[group] = std::min(live.begin[group], j);
      live.end[group] = end;
    }
  }
  return live;
}

}  // namespace stof::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
