// SPDX-License-Identifier: Apache-2.0
// The row-wise kernel as the contract wants it: the one that takes everything.
#pragma once
#include <vector>

#include "src/backend/contract.h"
#include "src/backend/cuda/layout.h"

namespace stof::cuda {

inline constexpr std::string_view kRowAttention = "row_attention";

Refusal rows_refuse(const AttentionProblem& problem, const DeviceCaps& caps);
std::vector<AttentionPlan> row_candidates(const AttentionProblem& problem, const DeviceCaps& caps);
ArrangedMask arrange_row_mask(const AttentionPlan& plan, PackedMask mask, const Device& device);
void run_rows(const AttentionPlan& plan, const ArrangedMask& mask, const stof::AttentionCall& call,
              const Device& device);

// Entry points of the unit "row_attention" for this storage.
std::string_view row_entry(DType dtype);
std::string_view listed_row_entry(DType dtype);

// As kernels take them.
RowStride stride_of(const AttentionStrides& strides);
RowItem row_item(const AttentionItem& item);
DraftTrees draft_trees_of(const stof::AttentionCall& call);
PageTable page_table_of(const KeyPages& pages);

// On a mask that another kernel arranged too.
void launch_rows(const DeviceBlocks& blocks, const stof::AttentionCall& call);
// Compiles and loads, so that a later launch does not.
void prepare_rows(const Gpu& gpu, DType dtype);

// Throws invalid_argument naming the tensor that is not memory of the device.
void check_addresses(const stof::AttentionCall& call, const Device& device);

}  // namespace stof::cuda
