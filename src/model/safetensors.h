// SPDX-License-Identifier: Apache-2.0
// Reads a safetensors file by mapping it: 8 bytes of header length (little-endian), a JSON header that gives each
// tensor's dtype, shape and byte range, then the data. Everything the header claims is checked before it is used.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "stof/tensor.h"

namespace stof {

struct TensorFile {
  std::map<std::string, TensorView, std::less<>> tensors;  // read-only memory: it belongs to the mapping
  std::shared_ptr<const void> mapping;                     // keeps the views valid
};

// Tensors that are not aligned for their dtype in the file are copied; all others borrow from the mapping.
// Throws bad_file; unsupported for a dtype of the format that this library has no type for.
TensorFile read_safetensors(const std::filesystem::path& file);

}  // namespace stof
