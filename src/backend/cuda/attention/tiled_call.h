// SPDX-License-Identifier: Apache-2.0
// A call of a kernel that works on tiles, cut into launches. Its lists are in the call's memory.
#pragma once
#include "src/backend/cuda/attention/tiled_mask.h"

namespace stof::cuda {

// What goes into one launch, of what else takes several.
struct Together {
  bool classes = false;  // residue classes of items, where they lie evenly
  bool heads = false;    // those with different masks
  bool items = false;    // and all heads of items that have
  int few_items = 0;     // so many have their numbers beside the launch's parameters
};

class TiledCall {
 public:
  TiledCall(const TiledMask& mask, const stof::AttentionCall& call, Together together);

  // Whether every tensor can be loaded through a map, and why some tensor cannot.
  bool fits_maps() const;
  Refusal refuses_maps() const;

  void run(const LaunchPiece& launch) const;

 private:
  struct DeviceNumbers;
  struct Piece;
  template <class Visit>
  bool all_boxes(const Visit& visit) const;
  std::span<const HeadRun> heads_of(const ItemRun& run) const;
  std::int64_t item_of(const ItemRun& run) const;
  bool is_alike(const ItemRun& run) const;
  BoxRows box_rows() const;
  PageTable pages_of(const ItemRun& run) const;
  DraftTrees trees_of(const ItemRun& run) const;
  DeviceNumbers numbers_on_device(const ItemRun& run, Workspace& workspace) const;
  DeviceNumbers write_numbers(const ItemRun& run, Workspace& workspace) const;
  SliceShape shape_of(const ItemRun& run, const HeadRun& heads, const DeviceNumbers& numbers) const;
  AttentionOutput output_of(const ItemRun& run, const HeadRun& heads) const;
  void launch_all(const LaunchPiece& launch, Workspace& workspace) const;
  void launch_piece(const LaunchPiece& launch, const Piece& piece, Workspace& workspace) const;

  const TiledMask& mask_;
  std::pmr::vector<AttentionItem> items_first_;  // of call_, where classes do not go into one launch
  stof::AttentionCall call_;
  const StreamHandle stream_;
  const bool by_item_;  // the mask differs by item
  const int few_items_;
  const bool mixed_;     // a launch takes all heads, and its lists say which one a row block is of
  const bool together_;  // items with masks of their own, as the kernel finds those
  std::pmr::vector<ItemRun> items_;
};

}  // namespace stof::cuda
