// SPDX-License-Identifier: Apache-2.0
// Where a band's row blocks over keys in pages lie, call by call: as in the layout, or from an item's own first row on,
// where the spans of rows say what these are allowed (kernels/cuda/band_spans.cuh). Needs no GPU.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "kernels/shared/row_spans.h"
#include "src/backend/cuda/attention/instances.h"
#include "src/layout/row_spans.h"

namespace stof::cuda {

// Rows of each position from the first on, and the kernel that takes them.
struct BandForm {
  BandInstance instance = {};
  int first_position = 0;
  std::optional<RowRule> rule = {};
  // Where there is no rule, of the rows from each position on, as many as a row block has, where keys begin and end:
  // those of part i 64 i keys further on.
  std::vector<RowKeys> rows = {};  // band_begin
  std::vector<int> ends = {};

  int block_rows() const { return 64 * instance.parts; }
};
BandForm band_form(const BandInstance& instance, std::span<const RowSpan> rows, int first_position, std::int64_t keys);

// Of the items of a launch: how many queries and keys each has, and slices.
struct BandItems {
  std::span<const int> queries, keys;
  int slices_of_item = 1;
  int page = 64;            // keys of one
  int layout_position = 0;  // of the layout's first row
  int layout_copy = 64;     // keys that a copy brings where row blocks lie as in the layout
  double at_once = 1;       // row blocks that the device works with
};

struct BandPlacement {
  int row_blocks = 0;  // of an item at most
  int copy = 64;  // keys that a copy brings of a page, and a power of two of which row blocks' keys begin at multiples
  bool from_first_row = false;
  friend bool operator==(const BandPlacement&, const BandPlacement&) = default;
};

// From the first row on where that is predicted to be sooner, and the keys of every row block are loaded at once.
BandPlacement place_band(const BandForm& form, const BandItems& items);

// So many row blocks of `rows` rows the rows of any item touch, in a layout whose row 0 has this position.
int touched_row_blocks(std::span<const int> queries, std::span<const int> keys, int first_position, int rows);

}  // namespace stof::cuda
