// SPDX-License-Identifier: Apache-2.0
#include "cli/problem_shape.h"

#include <charconv>

#include "src/base/error.h"

namespace stof::cli {

std::array<std::int64_t, 4> parse_shape(const std::string& text) {
  std::array<std::int64_t, 4> shape{};
  std::string numbers = text;
  std::erase(numbers, ' ');
  const char *next = numbers.data(), *const end = numbers.data() + numbers.size();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto [rest, error] = std::from_chars(next, end, shape[i]);
    const bool ends_well = i + 1 < shape.size() ? rest != end && *rest == ',' : rest == end;
    if (error != std::errc() || !ends_well)
      fail(ErrorKind::invalid_argument, "--shape {}; accepted: B,H,S,D, as in 1,12,2048,64", text);
    next = rest + 1;
  }
  return shape;
}

}  // namespace stof::cli
