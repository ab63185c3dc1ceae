// SPDX-License-Identifier: Apache-2.0
// How many slices go through a list side by side.
#pragma once
#include <algorithm>
#include <cmath>

#include "kernels/shared/device_layout.h"
#include "stof/attention.h"

namespace stof::cuda {

struct ListLoad {
  double tiles = 0;        // of 64 keys, of a row block on average
  double longest = 1;      // row block, over the average one
  std::int64_t items = 0;  // of a slice
  std::int64_t teams = 0;  // row blocks that the device works on at once
};

struct Sections {
  int width = 1;  // slices of one in front of the last one, at most
  int end = 1;    // slices that the last one should have,
  int most = 1;   // and at most; not below width

  // The sections in front of the last one, which has the slices that are left.
  struct Front {
    int width, count;
    int last(int slices) const { return slices - width * count; }
  };
  // Wide ones leave the last one too many rather than too few, narrow ones what is nearest to `end`. There are slices.
  Front front(int slices) const {
    const int longest = std::clamp(most, 1, slices), rest = slices - std::clamp(end, 1, longest);
    const bool narrow = 2 * width <= slices - rest;
    const int count =
        std::max(narrow ? (rest + width - 1) / width : rest / width, (slices - longest + width - 1) / width);
    if (count == 0) return {std::min(width, slices), 0};
    const int least = (slices - longest + count - 1) / count, nearest = (2 * rest + count) / (2 * count);
    return {std::max(1, std::min({width, std::max(least, nearest), (slices - 1) / count})), count};
  }
  // Where a list is of all heads of an item, so that slices are items.
  Sections of_items(int heads) const {
    const int items = std::max(1, width / heads);
    return {.width = items, .end = (end + heads - 1) / heads, .most = std::max(items, most / heads)};
  }
};

// Of a launch of so many slices, each of so many row blocks.
inline SliceSections in_sections(const Sections& sections, int slices, int row_blocks) {
  const Sections::Front front = sections.front(slices);
  return {front.width, front.last(slices), front.width * row_blocks, front.count};
}

// Dense lists read all of a slice's keys again and again, so that few slices go side by side: the L2 keeps them while
// queries and results pass through. Lists of a launch's items have the heads of an item together, where these fit.
// Sparse ones go slice by slice, unless there is so little to do that all must run at once. Row blocks of a section
// come longest first, so what evens out the end are the short ones of the last section: it has as many slices as keep
// all teams busy for longer than its longest row block takes, as far as the L2 goes.
// Bounds by bench/results/h100-sections.txt.
class SectionRule {
 public:
  SectionRule(const AttentionShape& shape, const ListLoad& load)
      : slices_(shape.batch * shape.heads),
        heads_(shape.heads),
        of_kv_head_(std::max<std::int64_t>(1, shape.heads / shape.kv_heads)),
        slice_bytes_(std::max<std::int64_t>(1, 4 * shape.keys * shape.head_dim * shape.kv_heads / shape.heads)),
        dense_(4 * 64 * load.tiles > static_cast<double>(shape.keys)),
        little_(load.items * slices_ < 16 * load.teams) {
    constexpr double kEnd = 1.5;  // times the longest row block
    const double end = std::ceil(kEnd * load.longest * static_cast<double>(load.teams) /
                                 static_cast<double>(std::max<std::int64_t>(1, load.items)));
    end_ = static_cast<std::int64_t>(std::clamp(end, 1.0, static_cast<double>(slices_)));
  }
  Sections sections() const {
    const std::int64_t wide = width();
    return {.width = static_cast<int>(wide), .end = static_cast<int>(end_), .most = static_cast<int>(most(wide))};
  }

 private:
  // Of keys and values.
  static constexpr std::int64_t kFrontBytes = 6'000'000;
  static constexpr std::int64_t kHeldBytes = 22'000'000;     // stay in 50 MB beside everything else
  static constexpr std::int64_t kSectionBytes = 25'000'000;  // at most, in front of the last one
  static constexpr std::int64_t kAllBytes = 26'000'000;      // of all slices, which then go side by side
  static constexpr std::int64_t kLastBytes = 40'000'000;     // something is lost of them

  std::int64_t slices_in(std::int64_t bytes) const {
    return std::clamp<std::int64_t>(bytes / slice_bytes_, 1, slices_);
  }
  std::int64_t width() const {
    const std::int64_t side_by_side = slices_in(kSectionBytes);
    if (!dense_) return little_ ? side_by_side : 1;
    if (slices_in(kAllBytes) == slices_) return slices_;
    const std::int64_t front = (slices_in(kFrontBytes) + of_kv_head_ - 1) / of_kv_head_ * of_kv_head_;
    return std::min(side_by_side, heads_ <= side_by_side ? std::max(front, heads_) : front);
  }
  // More than the L2 holds pays at the end of twice as much, or where it takes all slices to even out and so many can.
  std::int64_t most(std::int64_t wide) const {
    const std::int64_t last = slices_in(kLastBytes);
    if (!dense_) return little_ ? slices_ : std::max(wide, last);
    const bool all = end_ == slices_ && last == slices_;
    return std::max({wide, slices_in(kHeldBytes), all ? slices_ : std::min(last, slices_ / 2)});
  }

  std::int64_t slices_, heads_, of_kv_head_, slice_bytes_, end_ = 1;
  bool dense_, little_;
};

inline Sections sections_of(const AttentionShape& shape, const ListLoad& load) {
  return SectionRule(shape, load).sections();
}

}  // namespace stof::cuda
