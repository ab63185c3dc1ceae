// SPDX-License-Identifier: Apache-2.0
// Texts of several lines as one line, and back: `\n` stands for the end of a line, `\r` for CR, `\\` for a backslash.
#pragma once
#include <string>
#include <string_view>

namespace stof::cli {

std::string on_one_line(std::string_view text);

// Throws invalid_argument where a backslash has another character behind it, or none.
std::string of_one_line(std::string_view line);

}  // namespace stof::cli
