// SPDX-License-Identifier: Apache-2.0
// Lists of a call that were given as the device's, where the host reads its memory.
#pragma once
#include <optional>

#include "src/attention/call.h"

namespace stof {

// As include/stof/stof.h has them.
ListNames names_of_lists(const AttentionArguments& arguments);

// The same call with lengths of the host; nothing where it has such.
std::optional<AttentionArguments> with_host_lengths(const AttentionArguments& arguments);

}  // namespace stof
