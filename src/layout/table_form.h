// SPDX-License-Identifier: Apache-2.0
// The form of a mask's table beside the shape that it is for: sizes, and which table and which limit each head has.
#pragma once
#include <cstdint>
#include <vector>

#include "src/base/memory.h"
#include "src/layout/block_layout.h"
#include "stof/mask_table.h"

namespace stof {

// Whether a table says something of each pair, not of blocks.
inline bool is_of_pairs(TableKind kind) { return kind == TableKind::bits || kind == TableKind::packed; }

// One table that some head uses, and the group of the limiting mask that goes with it.
struct TableGroup {
  std::int64_t item = 0, head = 0;  // in the table
  int limit = 0;                    // group of the mask
  bool first = true;                // of its table
  friend bool operator==(const TableGroup&, const TableGroup&) = default;
};

// Tables are cut into row blocks of 64 rows, from row 0 on, and tiles of 64 keys.
struct TableForm {
  static constexpr std::int64_t kRows = 64, kKeys = 64;
  static constexpr BlockFormat kFormat = {.block_q = 64, .block_kv = 64, .key_step = 64};

  MaskTable table;
  MaskExtent extent;               // of the limiting mask and of the groups
  std::int64_t row_blocks = 0;     // of a head
  std::int64_t tiles = 0;          // of a row
  std::int64_t columns = 0;        // of a row of the table
  std::int64_t most_tiles = 0;     // of a row block that there is room for
  std::vector<TableGroup> groups;  // distinct
  std::vector<int> group_of;       // [extent.batch * extent.heads]
};

// `limit` has as many items as the table where that has several. Throws invalid_argument with the value got and the
// values accepted.
TableForm form_of(const MaskTable& table, const BoundMask& limit, std::int64_t kv_heads);

// Throws invalid_argument when no table of this form can lie there.
void check_contents(const TableForm& form, const TableContents& contents);

// What a table in the host's memory allows of what the limiting mask allows, in blocks of 64 x 64 that begin with row
// 0. Writes the status, of a table that has room for all. Throws unsupported for a layout above most_bytes, as
// pack_blocks does (src/layout/pack.h).
BlockLayout pack_table(const TableForm& form, const TableContents& contents, const BoundMask& limit,
                       std::uint64_t most_bytes = memory_limit() / 4);

}  // namespace stof
