// SPDX-License-Identifier: Apache-2.0
// The files that a command writes, checked before it works: a long run shall not end in a name that was mistyped.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>

#include "stof/tensor.h"

namespace stof::cli {

struct OutputFile {
  std::string_view option;  // as in "--out"
  const std::string& file;  // empty: not asked for
  bool or_stdout = false;   // "-" is stdout
};

// Throws invalid_argument for "-" and for a file that is named twice, bad_file for one that cannot be created.
void check_outputs(std::initializer_list<OutputFile> outputs);

bool is_large(const Shape& shape, DType dtype);  // above 4 GiB

// Throws invalid_argument, with the size, for an array above 4 GiB.
void check_size(const std::string& file, const Shape& shape, DType dtype);

// Throws device when the array is larger than what is free where the file would be: better than to fill a disk first.
void check_space(const std::string& file, const Shape& shape, DType dtype);

}  // namespace stof::cli
