// SPDX-License-Identifier: Apache-2.0
// The text header of an .npy file (NumPy enhancement proposal 1): dtype, order, shape.
#pragma once
#include <string>
#include <string_view>

#include "stof/tensor.h"

namespace stof {

struct NpyHeader {
  DType dtype = DType::f32;
  bool fortran_order = false;
  Shape shape;
  friend bool operator==(const NpyHeader&, const NpyHeader&) = default;
};

// Reads the dictionary after magic, version and length. Throws bad_file; messages start with "cannot read 'name': ".
NpyHeader parse_npy_header(std::string_view text, std::string_view name);

// Magic, version, length and dictionary of an array in C order, padded so that data starts at a multiple of 64 bytes.
// Throws invalid_argument for bf16, which .npy cannot express.
std::string npy_header(DType dtype, const Shape& shape);

}  // namespace stof
