// SPDX-License-Identifier: Apache-2.0
// A packed mask on a GPU as it is: what the row-wise kernel reads, and what every other kernel falls back to.
#pragma once
#include "kernels/shared/row_layout.h"
#include "src/backend/cuda/driver/device_memory.h"
#include "src/layout/block_layout.h"

namespace stof::cuda {

class DeviceBlocks {
 public:
  // Needs block_kv <= 64.
  DeviceBlocks(const Gpu& gpu, const BlockLayout& layout);
  const Gpu& gpu() const { return *gpu_; }
  RowLayoutView view() const;

 private:
  const Gpu* gpu_;
  DeviceMemory group_of_, row_begin_, entries_, bitmaps_;
  int heads_, row_blocks_, block_q_, first_position_;
};

}  // namespace stof::cuda
