// SPDX-License-Identifier: Apache-2.0
// Numbers of a call, brought to the device by launches, so that a recorded graph keeps them, or made there of the
// caller's lists, so that it follows them.
#pragma once
#include <span>

#include "kernels/shared/device_layout.h"
#include "kernels/shared/item_lists.h"
#include "src/backend/contract.h"
#include "src/backend/cuda/attention/call_pieces.h"
#include "src/backend/cuda/driver/gpu.h"

namespace stof::cuda {

// Compiles and loads, so that a later launch does not.
void prepare_numbers(const Gpu& gpu);
void write_numbers(const Gpu& gpu, int* to, std::span<const int> values, StreamHandle stream);

// Of few items what would be brought: it goes with the launch.
FewNumbers few_numbers(const ItemRun& items);

// The call's device_items as kernels take them.
ItemLists item_lists(const stof::AttentionCall& call);
ItemSteps item_steps(const stof::AttentionCall& call);
// Puts on the call's stream what makes ItemPlacement::numbers and list, each unless it is null, and the status that
// the call asks for.
void place_items(const Gpu& gpu, const stof::AttentionCall& call, int* numbers, RowItem* list = nullptr);
// As the contract wants it: the status alone.
void judge_lists(const stof::AttentionCall& call, const Device& device);
// Throws invalid_argument naming the list of the call's device_items that is not memory of the device.
void check_list_addresses(const stof::AttentionCall& call, const Device& device);

}  // namespace stof::cuda
