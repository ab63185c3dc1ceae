// SPDX-License-Identifier: Apache-2.0
// A mask written out element by element.
#pragma once
#include <filesystem>

#include "src/mask/bind.h"
#include "stof/tensor.h"

namespace stof::cli {

// [queries, keys] for one head of one item, else [batch, heads, queries, keys].
Shape array_shape(const MaskExtent& extent);

// A bool .npy file of that shape, written row by row: memory does not grow with the mask. Throws device when the disk
// is too small.
void write_mask_array(const std::filesystem::path& path, const BoundMask& mask);

}  // namespace stof::cli
