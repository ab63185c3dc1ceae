// SPDX-License-Identifier: Apache-2.0
// Row blocks of a launch whose items are shorter than planned: a list of those that there are, made on the device.
#pragma once
#include "kernels/shared/device_layout.h"
#include "kernels/shared/row_spans.h"

namespace stof::cuda {

// A place in the list is that of one item and one entry of `entries`, and stands for all heads of the item.
struct RowBlockListing {
  static constexpr int kThreads = 1024;  // of the one CTA that makes it
  static constexpr int kMostItems = 1024, kMostEntries = 2048;
  static constexpr int kMostPlaces = 1 << 14;  // items * entries

  SliceShape shape;           // of one residue class, and of lengths
  const StreamItem* entries;  // [entry_count]; null: parts of row blocks from an item's first row on, as RowSpans says
  int entry_count;
  int split_blocks, more_parts, aligned;  // RowSpans'
  int section, last_section;  // items that go through the entries side by side; the last section has all that are left
  int rows;                   // of a row block
  int* list;                  // [1 + items * entry_count]: how many there are, then item << 16 | entry of each
};

// Of stream kernels that find the row blocks of items that are short: by a list, in a window, or by what each row is
// allowed. Then the layout's items are counted, and it has no others.
struct ListedStreamParams : StreamParams {
  const int* list;  // or null
  RowWindow window;
  RowSpans spans;
  FewNumbers numbers;
  int leads;  // the launch behind works beside this one, once what is in front of both is done
};
struct PagedStreamParams : ListedStreamParams {
  TilePages pages;
};

}  // namespace stof::cuda
