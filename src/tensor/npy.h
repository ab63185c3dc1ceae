// SPDX-License-Identifier: Apache-2.0
// NumPy .npy files: little-endian f4, f2, i4, i8 and bool, C or Fortran order, format versions 1.0 to 3.0.
#pragma once
#include <filesystem>

#include "stof/tensor.h"

namespace stof {

// The result is contiguous in C order whatever the file's order. Sizes are checked before memory is taken. Throws
// bad_file for a file that is missing, truncated, too long, or of another dtype; device when memory runs out.
Tensor read_npy(const std::filesystem::path& path);

// Any strides. The file appears whole or not at all. bf16 is for the caller to widen: throws invalid_argument.
void write_npy(const std::filesystem::path& path, const TensorView& tensor);

}  // namespace stof
