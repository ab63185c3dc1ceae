// SPDX-License-Identifier: Apache-2.0
// Checked integer conversion, used where 64-bit sizes become a kernel's int.
#pragma once
#include <limits>
#include <string_view>
#include <utility>

#include "src/base/error.h"

namespace stof {

template <class To, class From>
To narrow(From value, std::string_view name) {
  if (!std::in_range<To>(value))
    fail(ErrorKind::invalid_argument, "{} = {} does not fit {}..{}", name, value, std::numeric_limits<To>::min(),
         std::numeric_limits<To>::max());
  return static_cast<To>(value);
}

}  // namespace stof
