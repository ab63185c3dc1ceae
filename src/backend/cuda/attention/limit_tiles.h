// SPDX-License-Identifier: Apache-2.0
// A mask of the host as the kernels that plan on the device ask for it: by tiles of 64 keys. Needs no GPU.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/shared/device_table.h"
#include "src/layout/table_form.h"

namespace stof::cuda {

// Empty tiles: the mask allows everything.
struct LimitArrays {
  std::vector<LimitTiles> tiles;     // [groups of the mask][row_blocks][words]
  std::vector<int> patterns;         // of the partial tiles, in order
  std::vector<std::uint32_t> words;  // [distinct][128]
};

LimitArrays limit_tiles(const TableForm& form, const BoundMask& limit);

}  // namespace stof::cuda
