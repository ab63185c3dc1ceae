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
  // Tensors of dtypes that this library has no type for, and what the file calls these. Nothing else is kept of them:
  // checkpoints carry buffers that no model reads.
  std::map<std::string, std::string, std::less<>> others;
  std::shared_ptr<const void> mapping;  // keeps the views valid
};

// Tensors that are not aligned for their dtype in the file are copied; all others borrow from the mapping.
// Throws bad_file, for a dtype that the format does not have, too.
TensorFile read_safetensors(const std::filesystem::path& file);

}  // namespace stof
