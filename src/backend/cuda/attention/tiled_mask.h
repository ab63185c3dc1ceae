// SPDX-License-Identifier: Apache-2.0
// What the kernels that work on tiles have in common: refusals, memory of a plan, a call cut into launches.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/shared/device_layout.h"
#include "src/backend/contract.h"
#include "src/backend/cuda/attention/call_pieces.h"
#include "src/backend/cuda/attention/kernel_store.h"
#include "src/backend/cuda/attention/tile_maps.h"
#include "src/backend/cuda/attention/workspace.h"
#include "src/backend/cuda/layout.h"

namespace stof::cuda {

// Of calls with a softcap, where the kernel is for others.
Refusal refuses_capped(const AttentionProblem& problem);
// Of calls with draft trees, or with a relative bias, likewise.
Refusal refuses_trees(const AttentionProblem& problem);
Refusal refuses_biased(const AttentionProblem& problem);
// Of sizes and dtype, with the head dimensions that there are instances of.
Refusal refuses_sizes(const AttentionProblem& problem, int most_head_dim);
// And of what tensor maps take.
Refusal refuses_tiles(const AttentionProblem& problem, const DeviceCaps& caps, int most_head_dim);

// A mask arranged for one of these kernels. Without a GPU it holds nothing.
struct TiledMask {
  AttentionShape shape = {};
  std::int64_t most_queries = 0;  // as PackedMask has it
  MaskExtent extent = {};
  int first_position = 0;
  std::vector<int> group_of = {};                    // [extent.batch * extent.heads]
  std::vector<std::vector<HeadRun>> head_runs = {};  // of each item: heads of one mask
  std::vector<HeadRun> all_heads = {};  // of each item: those that one launch takes; made on the device: one of all
  bool by_maps = true;                  // the kernel loads through tensor maps
  int key_box = 64;                     // keys of one load
  int key_step = 64;                    // divides where tiles begin: a load of a part of a page may have as many keys
  int few_items = 0;                    // launches of so many have numbers of items beside the parameters
  bool takes_trees = false;             // the kernel takes calls with draft trees, whose scores have no cap
  bool mixes_heads = false;             // the kernel's lists say which head: one launch takes them all
  bool mixes_items = false;             // the kernel finds each slice's list: a launch takes all heads of all items
  int stacked_heads = 1;                // whose rows a tile has; others than one only where there are `blocks`
  const Gpu* gpu = nullptr;
  std::unique_ptr<const DeviceBlocks> blocks = {};  // null: made on the device, where no other kernel can stand in
  std::unique_ptr<WorkspacePool> workspaces = {};
  const InstanceKernel* kernel = nullptr;  // null: the mask cannot be arranged for it
  const InstanceKernel* ragged = nullptr;  // for items with lengths or places of their own; null: `kernel` takes them
  const InstanceKernel* capped = nullptr;  // for calls with a softcap; null: `packed` takes them
  const InstanceKernel* biased = nullptr;  // for calls with a relative bias, likewise
  const InstanceKernel* packed = nullptr;  // works on `blocks`: takes calls that `kernel` does not; null: stacked heads
  const InstanceKernel *paged = nullptr,
                       *paged_packed = nullptr;  // both for keys in pages; null as well where it cannot
};

// Fills all but workspaces and kernel, and loads what launches need.
void set_up(TiledMask& mask, PackedMask packed, const Gpu& gpu);
// The same for a mask that is made on the device: a launch takes all heads, and the kernel finds each slice's lists.
void set_up(TiledMask& mask, const TableProblem& problem, const Gpu& gpu);

// What one launch gets: everything of a call but the mask. The group of heads whose lists are mixed is the item's
// index.
struct TiledLaunch {
  const TiledMask& mask;
  TileBoxes boxes;
  AttentionCall call;
  const HeadRun& heads;
  std::int64_t item;      // the first one's index in the mask
  PageTable pages = {};   // with the launch's items as places
  int page_box = 0;       // keys of one load of a page
  DraftTrees trees = {};  // with the same places
  ScoreBias bias = {};    // of the launch's heads
  Workspace& workspace;
  StreamHandle stream;
  std::int64_t rows;     // of q that all items have together, at most
  const ItemRun& items;  // its lengths are empty where the device alone knows
  // The kernel may start before the one in front of it ends. Not behind what makes numbers: kernels wait for it first.
  bool overlap_previous;
  Beside beside = {};  // the call's, where this is its only launch

  // Scores are not only multiplied, for which kernels have forms of their own.
  bool changes_scores() const { return call.cap_log2 != 0 || bias.values != nullptr; }
};

TilePages tile_pages(const TiledLaunch& launch);

using LaunchPiece = std::function<void(const TiledLaunch&)>;

// Of a call's own workspace.
std::size_t workspace_bytes(const TiledMask& mask);

// Whether items differ from what is planned, which kernels without lengths take every item to be, or from each other.
bool is_ragged(const TiledLaunch& launch);
// Launches the kernel of the mask that the piece needs, with tensor maps and its parameters.
void start(const TiledLaunch& launch, int grid, void* params);
// Launches this one.
void start(const TiledLaunch& launch, const InstanceKernel& kernel, int grid, void* params);
// Launches the kernel right behind what makes it a list: it waits by itself before it reads any.
void start_listed(const TiledLaunch& launch, const InstanceKernel& kernel, int grid, void* params);

// Calls `launch` for every piece of the call; launches the packed kernel where tensor maps cannot take its tensors.
void run_tiles(const TiledMask& mask, const stof::AttentionCall& call, const Device& device, const LaunchPiece& launch);

}  // namespace stof::cuda
