// SPDX-License-Identifier: Apache-2.0
// Text out of files and arguments, for a terminal.
#pragma once
#include <string>

namespace stof {

// Control characters but line feed and tab become \xNN, byte by byte: NUL would end a message, others would be obeyed.
std::string printable(std::string text);

}  // namespace stof
