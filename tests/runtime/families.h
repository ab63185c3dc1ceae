// SPDX-License-Identifier: Apache-2.0
// The small checkpoints of every family, and the texts whose results stand beside them (tools/make_small_models.py).
#pragma once
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "src/tensor/npy.h"
#include "tests/source_folder.h"

namespace stof {

inline std::filesystem::path family_folder(const std::string& family) {
  return source_folder() / "tests/data/families" / family;
}

// Some tokenizers give an empty text no tokens: such texts are left out, as in their references.
inline std::vector<std::string> texts_of_family(const std::string& family) {
  const Tensor lengths = read_npy(family_folder(family) / "lengths.npy");
  std::ifstream file(family_folder("texts.txt"));
  std::vector<std::string> texts;
  std::int64_t line = 0;
  for (std::string text; std::getline(file, text); ++line)
    if (lengths.as<std::int32_t>()[line] > 0) texts.push_back(text);
  return texts;
}

}  // namespace stof
