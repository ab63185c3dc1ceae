// SPDX-License-Identifier: Apache-2.0
// The files that a command writes, checked before it works: a long run shall not end in a name that was mistyped.
#pragma once
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "stof/tensor.h"

namespace stof::cli {

struct OutputFile {
  std::string_view option;  // as in "--out"
  const std::string& file;  // empty: not asked for
  bool or_stdout = false;   // "-" is stdout
};

struct InputFile {
  std::string_view option;
  std::string file;                     // empty: not given
  std::string_view written_again = {};  // the one option that may write this file
};

// What a session reads of a model's folder.
std::vector<InputFile> files_of_model(std::string_view option, const std::string& folder);

// The arrays that a mask's text names, whatever the text is worth.
std::vector<InputFile> files_of_mask(std::string_view option, std::string_view text);
std::vector<InputFile> files_of_masks(const std::vector<std::string>& texts);  // each a --mask

// Throws invalid_argument for "-", for a file or stdout that is named twice and for one of the inputs, bad_file for a
// file that cannot be created.
void check_outputs(std::initializer_list<OutputFile> outputs, const std::vector<InputFile>& inputs = {});

// Makes a folder of the cache that a command will keep `what` in, as in "plans". Throws bad_file when it takes no file:
// before minutes of work whose result would be lost.
void check_keeps(std::string_view what, const std::filesystem::path& folder);

bool is_large(const Shape& shape, DType dtype);  // above 4 GiB

// Throws invalid_argument, with the size, for an array above 4 GiB.
void check_size(const std::string& file, const Shape& shape, DType dtype);

// Throws device when the array is larger than what is free where the file would be: better than to fill a disk first.
void check_space(const std::string& file, const Shape& shape, DType dtype);

}  // namespace stof::cli
