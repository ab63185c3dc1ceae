// SPDX-License-Identifier: Apache-2.0
// A file of texts, one a line.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace stof::cli {

// Lines end with LF or CR LF; the last one may lack its end. An empty line is an empty text, an empty file no text.
// Throws bad_file for a file that cannot be read, and for bytes that are not UTF-8, naming line and byte.
std::vector<std::string> read_lines(const std::filesystem::path& file);

// The same of the value of an option: of "-", the lines of stdin.
std::vector<std::string> read_input(const std::string& input);

// What messages call it.
std::string input_name(const std::string& input);

}  // namespace stof::cli
