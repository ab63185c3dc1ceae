// SPDX-License-Identifier: Apache-2.0
// Raising errors: fail() for the user's mistakes, STOF_CHECK for ours.
#pragma once
#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "src/base/printable.h"
#include "stof/error.h"

namespace stof {

template <class... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, printable(fmt::format(format, std::forward<Args>(args)...)));
}

[[noreturn]] void bug(std::string_view condition, std::string_view file, int line);

}  // namespace stof

#define STOF_CHECK(condition) (static_cast<bool>(condition) ? void() : ::stof::bug(#condition, __FILE__, __LINE__))
