// SPDX-License-Identifier: Apache-2.0
#include "src/base/error.h"

namespace stof {

void bug(std::string_view condition, std::string_view file, int line) {
  fail(ErrorKind::internal, "bug in STOF: {} does not hold at {}:{}; please report it", condition, file, line);
}

}  // namespace stof
