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
  int width = 1;  // slices
  int end = 1;    // slices that the last one should have at least,
  int most = 1;   // and at most; not below width

  // Sections in front of the last one, of so many slices.
  int before_last(int slices) const {
    const int fewest = slices > most ? (slices - most + width - 1) / width : 0;
    return std::max(std::max(0, slices - end) / width, fewest);
  }
  // Where a list is of all heads of an item, so that slices are items.
  Sections of_items(int heads) const {
    const int items = std::max(1, width / heads);
    return {.width = items, .end = (end + heads - 1) / heads, .most = std::max(items, most / heads)};
  }
};

// Of a launch of so many slices, each of so many row blocks.
inline SliceSections in_sections(int width, int before_last, int slices, int row_blocks) {
  return {width, slices - before_last * width, width * row_blocks, before_last};
}
inline SliceSections in_sections(const Sections& sections, int slices, int row_blocks) {
  return in_sections(std::min(sections.width, slices), sections.before_last(slices), slices, row_blocks);
}

// Dense lists read all of a slice's keys again and again: as many slices side by side as the L2 holds. Sparse ones go
// slice by slice, unless there is so little to do that all must run at once. Row blocks of a section come longest
// first, so what evens out the end are the short ones of the last section: it has as many slices as keep all teams busy
// for longer than its longest row block takes, as far as the L2 goes.
inline Sections sections_of(const AttentionShape& shape, const ListLoad& load) {
  constexpr std::int64_t kSectionBytes = 25'000'000;  // keys and values: what stays in 50 MB beside everything else
  constexpr std::int64_t kLastBytes = 40'000'000;     // what may be lost from it at the end
  constexpr double kEnd = 1.5;                        // times the longest row block
  const std::int64_t slices = shape.batch * shape.heads;
  const std::int64_t slice_bytes =
      std::max<std::int64_t>(1, 4 * shape.keys * shape.head_dim * shape.kv_heads / shape.heads);
  const auto slices_in = [&](std::int64_t bytes) { return std::clamp<std::int64_t>(bytes / slice_bytes, 1, slices); };
  const bool dense = 4 * 64 * load.tiles > static_cast<double>(shape.keys);
  const bool little = load.items * slices < 16 * load.teams;
  const std::int64_t width = dense || little ? slices_in(kSectionBytes) : 1,
                     most = little && !dense ? slices : std::max(width, slices_in(kLastBytes));
  const double end = std::ceil(kEnd * load.longest * static_cast<double>(load.teams) /
                               static_cast<double>(std::max<std::int64_t>(1, load.items)));
  return {.width = static_cast<int>(width),
          .end = static_cast<int>(std::clamp(end, 1.0, static_cast<double>(slices))),
          .most = static_cast<int>(most)};
}

}  // namespace stof::cuda
