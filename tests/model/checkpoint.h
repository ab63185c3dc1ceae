// SPDX-License-Identifier: Apache-2.0
// The real checkpoint that tests compare on.
#pragma once
#include <filesystem>
#include <stdexcept>
#include <string>

#include "tests/source_folder.h"

namespace stof {

// The folder of all-MiniLM-L6-v2; the test fails where it is missing.
inline std::filesystem::path checkpoint() {
  const std::filesystem::path folder = source_folder() / ".cache/models/all-MiniLM-L6-v2";
  if (!std::filesystem::exists(folder / "model.safetensors"))
    throw std::runtime_error("no checkpoint in " + folder.string() + "; `make model` fetches it");
  return folder;
}

}  // namespace stof
