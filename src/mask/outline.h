// SPDX-License-Identifier: Apache-2.0
// A band of rows seen in cells of keys: which are empty, partial and full. Terms whose ends are known say where they
// are, instead of being asked about one rectangle after the other.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "src/mask/range.h"

namespace stof {

// Of a band: cell c holds keys [c * cell_keys, (c + 1) * cell_keys), the last one those below `keys`.
struct CellGrid {
  Range positions;
  std::int64_t cell_keys = 64, keys = 0;

  Range all() const { return {0, ceil_div(keys, cell_keys)}; }
  Range keys_of(Range cells) const { return {cells.begin * cell_keys, std::min(cells.end * cell_keys, keys)}; }
  // The cells that have one of these keys, and those that have no other.
  Range touched(Range by) const {
    const Range there = intersect(by, {0, keys});
    return there.empty() ? Range{} : Range{there.begin / cell_keys, ceil_div(there.end, cell_keys)};
  }
  Range inside(Range of) const {
    const Range there = intersect(of, {0, keys});
    return {ceil_div(there.begin, cell_keys), there.end == keys ? all().end : there.end / cell_keys};
  }
};

// Runs of cells, ascending; cells between them are empty.
class Outline {
 public:
  struct Run {
    Range cells;
    BlockKind kind = BlockKind::empty;
    friend bool operator==(const Run&, const Run&) = default;
  };

  std::span<const Run> runs() const { return runs_; }
  void clear() { runs_.clear(); }
  // Behind the cells before; none when there are no cells, or they are empty ones.
  void add(Range cells, BlockKind kind) {
    if (cells.empty() || kind == BlockKind::empty) return;
    if (!runs_.empty() && runs_.back().kind == kind && runs_.back().cells.end == cells.begin)
      runs_.back().cells.end = cells.end;
    else runs_.push_back({cells, kind});
  }
  // Of `cells`, those that are touched, which are full where they are inside as well.
  void add(Range cells, Range touched, Range inside) {
    const Range some = intersect(touched, cells), whole = intersect(inside, some);
    if (whole.empty()) return add(some, BlockKind::partial);
    add({some.begin, whole.begin}, BlockKind::partial);
    add(whole, BlockKind::full);
    add({whole.end, some.end}, BlockKind::partial);
  }
  // Cells of some rows together with those of others: of one kind where both are.
  void add_rows_of(const Outline& above, const Outline& below) {
    constexpr std::int64_t kEnd = std::int64_t{1} << 62;
    auto a = above.runs_.begin(), b = below.runs_.begin();
    for (std::int64_t at = 0; a != above.runs_.end() || b != below.runs_.end();) {
      const Run of_a = a != above.runs_.end() ? *a : Run{{kEnd, kEnd}},
                of_b = b != below.runs_.end() ? *b : Run{{kEnd, kEnd}};
      const bool in_a = of_a.cells.begin <= at, in_b = of_b.cells.begin <= at;
      const std::int64_t end =
          std::min(in_a ? of_a.cells.end : of_a.cells.begin, in_b ? of_b.cells.end : of_b.cells.begin);
      const BlockKind kind_a = in_a ? of_a.kind : BlockKind::empty, kind_b = in_b ? of_b.kind : BlockKind::empty;
      add({at, end}, kind_a == kind_b ? kind_a : BlockKind::partial);
      at = end;
      if (a != above.runs_.end() && of_a.cells.end <= at) ++a;
      if (b != below.runs_.end() && of_b.cells.end <= at) ++b;
    }
  }

 private:
  std::vector<Run> runs_;
};

}  // namespace stof
