// SPDX-License-Identifier: Apache-2.0
// Which column blocks each term allows in a row-block.
#include <algorithm>
#include <vector>

#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/mask/terms/block_rows.h"

namespace stof::bound {
namespace {

// Drawing looks at every (row-block, column block) once, which takes seconds for 2^32; every row-block takes memory.
constexpr std::int64_t kMostPairs = std::int64_t{1} << 32, kMostRows = std::int64_t{1} << 24;
constexpr std::int64_t kMostDrawn = std::int64_t{1} << 27;  // 16 bytes each

// `drawn`: how many column blocks each row-block draws.
void check_count(std::string_view term, const BlockRows& rows, std::int64_t drawn) {
  const std::int64_t row_blocks = rows.row_blocks().size(), columns = rows.columns();
  if (row_blocks > kMostRows)
    fail(ErrorKind::unsupported, "{} has {} row-blocks; accepted: at most {}, so use larger blocks", term, row_blocks,
         kMostRows);
  if (drawn > 0 && columns > 0 && row_blocks > kMostPairs / columns)
    fail(ErrorKind::unsupported, "{} draws from {} x {} blocks; accepted: at most {} pairs, so use larger blocks", term,
         row_blocks, columns, kMostPairs);
  if (drawn < columns && row_blocks > 0 && drawn > kMostDrawn / row_blocks)
    fail(ErrorKind::unsupported,
         "{} draws {} blocks for each of {} row-blocks; accepted: at most {}, so use larger blocks", term, drawn,
         row_blocks, kMostDrawn / row_blocks);
}

// The `count` column blocks with the smallest keys; ties go to the smaller block.
class RandomDraw {
 public:
  RandomDraw(std::int64_t count, std::uint64_t seed, std::int64_t columns)
      : count_(static_cast<std::size_t>(std::min(count, columns))), columns_(columns), seed_(seed) {}

  void append(std::int64_t row_block, std::vector<Range>& ranges) {
    if (count_ == static_cast<std::size_t>(columns_)) return ranges.push_back({0, columns_});
    if (count_ == 0) return;
    heap_.clear();
    const std::uint64_t row = static_cast<std::uint64_t>(row_block) << 32;
    for (std::int64_t j = 0; j < columns_; ++j) {
      const Drawn drawn{splitmix64(seed_ + 0x9E3779B97F4A7C15ull * (row + static_cast<std::uint64_t>(j) + 1)), j};
      if (heap_.size() == count_) {
        if (!(drawn < heap_.front())) continue;
        std::pop_heap(heap_.begin(), heap_.end());
        heap_.pop_back();
      }
      heap_.push_back(drawn);
      std::push_heap(heap_.begin(), heap_.end());
    }
    for (const Drawn& drawn : heap_) ranges.push_back({drawn.column, drawn.column + 1});
  }

 private:
  struct Drawn {
    std::uint64_t key;
    std::int64_t column;
    friend auto operator<=>(const Drawn&, const Drawn&) = default;
  };
  std::size_t count_;
  std::int64_t columns_;
  std::uint64_t seed_;
  std::vector<Drawn> heap_;  // the largest in front
};

}  // namespace

BlockRows bind(const term::Blocks& term, std::int64_t slice, const MaskExtent& extent) {
  BlockRows rows(term.size, extent);
  // Rows before the first key have no table that bounds them.
  check_count(term.print(ArrayNames::display), rows, 0);
  std::vector<Range> ranges;
  for (std::int64_t r = rows.row_blocks().begin; r < rows.row_blocks().end; ++r) {
    for (std::int64_t c = 0; r >= 0 && c < rows.columns(); ++c)  // the table has no rows before position 0
      if (term.table->at(slice, r, c)) ranges.push_back({c, c + 1});
    rows.append(ranges);
  }
  return rows;
}

BlockRows bind(const term::RandomBlocks& term, const MaskExtent& extent) {
  BlockRows rows(term.size, extent);
  check_count(term.print(ArrayNames::display), rows, term.count);
  RandomDraw draw(term.count, term.seed, rows.columns());
  std::vector<Range> ranges;
  for (std::int64_t r = rows.row_blocks().begin; r < rows.row_blocks().end; ++r) {
    draw.append(r, ranges);
    rows.append(ranges);
  }
  return rows;
}

BlockRows bind(const term::BigBird& term, const MaskExtent& extent) {
  BlockRows rows(term.size, extent);
  check_count(term.print(ArrayNames::display), rows, term.random);
  const std::int64_t columns = rows.columns(), reach = (term.window - 1) / 2;
  const Range first = {0, std::min(columns, ceil_div(term.global, 2))};
  const Range last = {std::max<std::int64_t>(0, columns - term.global / 2), columns};
  RandomDraw draw(term.random, term.seed, columns);
  std::vector<Range> ranges;
  for (std::int64_t r = rows.row_blocks().begin; r < rows.row_blocks().end; ++r) {
    if (first.contains(r) || last.contains(r)) {
      ranges.push_back({0, columns});
    } else {
      ranges = {first, last, intersect({r - reach, r + reach + 1}, {0, columns})};
      draw.append(r, ranges);
    }
    rows.append(ranges);
  }
  return rows;
}

}  // namespace stof::bound
