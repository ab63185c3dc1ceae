// SPDX-License-Identifier: Apache-2.0
// Masks that allow each row a prefix of the keys and one range of them: causal, windows, sinks, prefixes, documents.
// Their row blocks may begin at any row, so that a launch over chunks of prompts, which begin anywhere, has row blocks
// from the first row of each on, cut into parts by the keys that there are.
#pragma once

namespace stof::cuda {

// Of the row of one position: keys [0, prefix_end) and [begin, end) are allowed. prefix_end <= begin; a row without
// keys has zeros.
struct alignas(16) RowKeys {
  int prefix_end, begin, end, unused;
};

struct RowSpans {
  const RowKeys* rows;  // of consecutive positions; null: row blocks are those of a layout
  int first_position;   // of rows[0]
  int key_step;         // a power of two of which tiles begin at multiples
  int parts;            // of a row block at most
  int part_steps;       // a row block of more has several
};

}  // namespace stof::cuda
