// SPDX-License-Identifier: Apache-2.0
// The row-wise kernel's parameters for items that are listed on the device.
#pragma once
#include "kernels/shared/item_lists.h"
#include "kernels/shared/row_layout.h"

namespace stof::cuda {

struct ListedRowParams {
  RowAttentionParams call;  // but for its items
  ItemLists lists;
  long long q_item, k_item, v_item, out_item, lse_item;  // from item to item, where they are padded
};

}  // namespace stof::cuda
