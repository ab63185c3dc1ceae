// SPDX-License-Identifier: Apache-2.0
// Memory that could not be had says so in front, with the bytes that were wanted where they are known; who knows what
// they were for adds it.
#pragma once
#include "src/base/error.h"

namespace stof {

inline bool is_out_of_memory(const Error& error) {
  return error.kind() == ErrorKind::device && std::string_view(error.what()).starts_with("out of memory");
}

}  // namespace stof
