// SPDX-License-Identifier: Apache-2.0
// Masks that allow each row a prefix of the keys and one range of them: causal, windows, sinks, prefixes, documents.
// Their row blocks may begin at any row, so that a launch over chunks of prompts, which begin anywhere, has row blocks
// from the first row of each on, cut into parts by the keys that there are.
#pragma once
#include "kernels/shared/divisor.h"
#include "kernels/shared/draft_trees.h"

namespace stof::cuda {

// Of the row of one position: keys [0, prefix_end) and [begin, end) are allowed. prefix_end <= begin; a row without
// keys has zeros. band_begin: of bands, what the function of this name says of a row block from this row on.
struct alignas(16) RowKeys {
  int prefix_end, begin, end, band_begin;
};

// The same of all positions at once: keys [0, prefix_end) and [position + begin, position + end), which may overlap.
struct RowRule {
  static constexpr int kNoBound = 1 << 29;  // further than any key
  int prefix_end, begin, end;
};

// Where the keys of a band's row block begin whose first row stands at `position`, at most: 64 i keys further on those
// of its part i of 64 rows do. `rows`: that it has.
STOF_ANYWHERE int band_begin(const RowRule& rule, int position, int rows) {
  const int least = -((rows - 1) / 64 * 64), begin = rule.prefix_end > 0 ? least : position + rule.begin;
  return begin > least ? begin : least;
}

struct RowSpans {
  const RowKeys* rows;  // of consecutive positions; null: `rule` says it
  RowRule rule;
  int first_position;  // of rows[0]
  int key_step;        // a power of two of which tiles begin at multiples
  Divisor row_blocks;  // of an item at most
  // So many of them, in the order in which they are taken, may have several parts, which come in front of all first
  // ones: split_blocks * (parts - 1) of an item.
  Divisor split_blocks;
  int more_parts;
  int parts;           // of a row block at most, of a band's one; 0: row blocks are those of a layout
  Divisor part_steps;  // a row block of more has several
  int last_first;      // row blocks are taken from an item's last one on, which has the most keys
  int summed;          // parts are left to the grid behind (stream_sum.cuh)
  DraftTrees trees;    // of the launch's items
  int aligned;  // row blocks begin at positions that 64 divides, an item's first one before its first row if need be
};

// Of stream_sum_kernel.
struct SpanSumGrid {
  static constexpr int kThreads = 128;
  static constexpr int kVectors = 2, kColumns = 8 * kVectors;  // of a CTA
};

}  // namespace stof::cuda
