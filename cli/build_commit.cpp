// SPDX-License-Identifier: Apache-2.0
#include "cli/build_commit.h"

#include <stof_commit.h>

namespace stof::cli {

std::string_view build_commit() { return STOF_COMMIT; }

}  // namespace stof::cli
