// SPDX-License-Identifier: Apache-2.0
// Terms that keep packed documents apart.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/mask/array_names.h"
#include "src/mask/outline.h"
#include "src/mask/range.h"
#include "src/mask/range_extremes.h"
#include "src/mask/row_bits.h"
#include "src/mask/traits.h"
#include "stof/mask.h"

namespace stof::term {

struct Documents {
  std::vector<std::int64_t> starts;  // ascending from 0
  std::string print(ArrayNames) const;
  static constexpr MaskTraits traits() { return kPositions; }
};

struct DocumentIds {
  struct Array {
    Shape shape;  // [M] or [B, M]; [1, M] is of every item
    std::vector<std::int32_t> ids;
    std::vector<std::int64_t> item_of;  // [B]: the first item with equal ids
    ArraySource source;
  };
  std::shared_ptr<const Array> array;
  std::string print(ArrayNames names) const;
  MaskTraits traits() const { return {.batch = array->item_of.size() > 1}; }
};

struct Segments {
  std::vector<Segment> segments;    // by query_begin
  std::vector<std::int64_t> reach;  // reach[i]: the largest query_end of segments [0, i]

  explicit Segments(std::vector<Segment> segments);
  bool allows(std::int64_t p, std::int64_t key) const;
  BlockKind classify(Range positions, Range keys) const;
  void fill(std::int64_t p, RowBits row) const;
  std::string print(ArrayNames) const;
  static constexpr MaskTraits traits() { return kPositions; }

 private:
  // The segments that may hold one of these positions.
  Range candidates(Range positions) const;
};

}  // namespace stof::term

namespace stof::bound {

// Documents of one batch item, as runs of positions with one id; negative ids are padding.
class SameDocument {
 public:
  // Run r covers [begins[r], begins[r + 1]), the last one ends at `keys`.
  SameDocument(std::vector<std::int64_t> begins, std::vector<std::int64_t> ids, std::int64_t keys);

  bool allows(std::int64_t p, std::int64_t key) const;
  BlockKind classify(Range positions, Range keys) const;
  // False where several documents of the band have more than a run each: their runs are not in order.
  bool outline(const CellGrid& grid, Range cells, Outline& out) const;
  void fill(const TileBits& tile) const;

 private:
  std::size_t run_of(std::int64_t position) const;
  Range run(std::size_t index) const { return {begins_[index], begins_[index + 1]}; }
  // Those with the id of one, itself among them, ascending.
  std::span<const std::size_t> runs_like(std::size_t index) const;

  std::vector<std::int64_t> begins_;  // one more than ids_
  std::vector<std::int64_t> ids_;
  std::vector<std::size_t> by_id_;  // runs ordered by (id, begin)
  struct Places {
    std::size_t begin, end;
  };
  std::vector<Places> places_of_id_;  // [run]: where the runs of its id lie in by_id_
  RangeExtremes extremes_;
};

}  // namespace stof::bound
