// SPDX-License-Identifier: Apache-2.0
// What the draft trees of a call are to the CPU's kernels.
#pragma once
#include <memory_resource>
#include <span>
#include <vector>

#include "src/backend/cpu/attention/work_list.h"
#include "src/backend/cpu/layout.h"

namespace stof::cpu {

bool has_tree(const AttentionCall& call, const AttentionItem& item);

// Of an item without one, nothing.
RowTree tree_of(const AttentionCall& call, const AttentionItem& item);

// Visits that reach among the keys of a tree, with masks of their own: what the layout allows and the tree, too.
class TreeMasks {
 public:
  // Both outlive this.
  TreeMasks(const ArrangedBlocks& blocks, const AttentionCall& call)
      : blocks_(blocks), call_(call), visits_(call.memory), masks_(call.memory) {}

  // Pieces from `first` on are the row-blocks of one head of an item that has a tree, and keep the visits in front of
  // it. Those of the item's head before, if there is one, come before them: what has the same mask shares it.
  void cut(std::span<Piece> pieces, std::size_t first);

  // For Piece::tree_begin, until the next cut.
  const BlockVisit* visits() const { return visits_.data(); }
  const std::uint8_t* masks() const { return masks_.data(); }

 private:
  void cut(Piece& piece);
  void add_mask(const BlockVisit& visit, const Piece& piece);

  const ArrangedBlocks& blocks_;
  const AttentionCall& call_;
  std::pmr::vector<BlockVisit> visits_;  // each with the mask of its own place
  std::pmr::vector<std::uint8_t> masks_;
};

}  // namespace stof::cpu
