// SPDX-License-Identifier: Apache-2.0
// The row-wise kernel's parameters for items that are listed on the device.
#pragma once
#include "kernels/shared/item_lists.h"
#include "kernels/shared/row_layout.h"

namespace stof::cuda {

struct ListedRowParams {
  RowAttentionParams call;  // but for its items
  ItemLists lists;
  ItemSteps steps;
};

}  // namespace stof::cuda
