// SPDX-License-Identifier: Apache-2.0
// What people are told on stderr.
#pragma once
#include <cstdio>
#include <string>

namespace stof::cli {

// A closed or full stderr loses the message, never the work: fmt::print would throw.
inline void say(const std::string& text) { std::fputs(text.c_str(), stderr); }

}  // namespace stof::cli
