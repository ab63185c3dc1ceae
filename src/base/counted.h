// SPDX-License-Identifier: Apache-2.0
// Numbers of things as people read them.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace stof {

// "1 query", "2 queries"
inline std::string counted(std::int64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

}  // namespace stof
