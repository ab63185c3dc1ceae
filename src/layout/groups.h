// SPDX-License-Identifier: Apache-2.0
// Which packed group each (item, head) uses, once groups of a mask that turned out equal share one.
#pragma once
#include <vector>

#include "src/mask/bind.h"

namespace stof {

class Groups {
 public:
  explicit Groups(const BoundMask& mask) : mask_(mask), packed_(static_cast<std::size_t>(mask.groups())) {}

  void place(int group, int packed) { packed_[static_cast<std::size_t>(group)] = packed; }
  // [batch * heads]
  std::vector<int> of_each_head() const {
    const MaskExtent& extent = mask_.extent();
    std::vector<int> groups;
    groups.reserve(static_cast<std::size_t>(extent.batch * extent.heads));
    for (std::int64_t item = 0; item < extent.batch; ++item)
      for (std::int64_t head = 0; head < extent.heads; ++head)
        groups.push_back(packed_[static_cast<std::size_t>(mask_.group_of(item, head))]);
    return groups;
  }

 private:
  const BoundMask& mask_;
  std::vector<int> packed_;
};

}  // namespace stof
