// SPDX-License-Identifier: Apache-2.0
// Sizes as people read them.
#pragma once
#include <fmt/format.h>

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

namespace stof::cli {

// In the largest unit that there is one of: "12 bytes", "1.5 KiB", "4096.0 GiB".
inline std::string size_text(double bytes) {
  constexpr std::string_view kUnits[] = {"bytes", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return unit == 0 ? fmt::format("{:.0f} bytes", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

}  // namespace stof::cli
