// SPDX-License-Identifier: Apache-2.0
// A mask as decode_attention has it, and what a call makes of it before anything is launched.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/shared/decode_layout.h"
#include "src/backend/contract.h"
#include "src/backend/cuda/attention/arrange.h"
#include "src/backend/cuda/attention/decode_few_keys.h"
#include "src/backend/cuda/attention/decode_forms.h"
#include "src/backend/cuda/attention/kernel_store.h"
#include "src/backend/cuda/attention/workspace.h"
#include "src/backend/cuda/layout.h"

namespace stof::cuda {

inline constexpr int kStatFloats = 4;  // behind the columns of a partial row

// A mask arranged for this kernel. Without a GPU it holds nothing.
struct DecodeMask {
  AttentionShape shape = {};
  DecodeInstance instance = {};
  std::span<const DecodeForm> forms = {};  // that its calls may want
  int first_position = 0, blocks = 0, most_tiles = 0, ctas = 0;
  std::vector<DecodeList> of_positions = {};  // as the device has them
  std::vector<DecodeRun> runs_of_lists = {};  // the same
  HeadSets sets;
  std::unique_ptr<const DeviceBlocks> rows = {};  // for calls that go row by row
  std::unique_ptr<WorkspacePool> workspaces = {};
  std::optional<FewKeysMask> few_keys = {};
  std::vector<const InstanceKernel*> kernels = {};   // of the forms
  std::vector<const InstanceKernel*> of_trees = {};  // the same, of shapes whose calls bring draft trees
  std::vector<const Kernel*> sums = {};
  DeviceMemory lists, runs, words, heads;
};

// Partial results, two a CTA, and behind them the items that parameters have no room for.
std::size_t partial_floats(const DecodeMask& mask);

// Of a key head under one mask, of an item with so many queries.
int rows_of(const DecodeMask& mask, std::int64_t queries);
// Tasks that these rows are.
int chunks_of(const DecodeMask& mask, std::int64_t queries);

// Of an item whose heads have one mask. Null: it has no key.
const DecodeList* list_of(const DecodeMask& mask, const RowItem& item);
int tiles_of(const DecodeMask& mask, const RowItem& item);

// Launches of a call beside another kernel's, whose items are all among their parameters.
std::int64_t launches_beside(const DecodeMask& mask, const stof::AttentionCall& call, std::int64_t queries);

// Why the kernel does not take a call, which then goes row by row; null: it does.
const char* why_by_rows(const DecodeMask& mask, const stof::AttentionCall& call);

}  // namespace stof::cuda
