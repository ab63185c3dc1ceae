// SPDX-License-Identifier: Apache-2.0
#include "cli/one_line.h"

#include "src/base/error.h"

namespace stof::cli {

std::string on_one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    if (c == '\n') line += "\\n";
    else if (c == '\r') line += "\\r";
    else if (c == '\\') line += "\\\\";
    else line += c;
  }
  return line;
}

std::string of_one_line(std::string_view line) {
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\') {
      text += line[i];
      continue;
    }
    const char next = ++i < line.size() ? line[i] : '\0';
    if (next == 'n') text += '\n';
    else if (next == 'r') text += '\r';
    else if (next == '\\') text += '\\';
    else
      fail(ErrorKind::invalid_argument,
           "the backslash at byte {} is none of '\\n', '\\r', '\\\\', which --escaped accepts", i - 1);
  }
  return text;
}

}  // namespace stof::cli
