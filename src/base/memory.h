// SPDX-License-Identifier: Apache-2.0
// How much memory this process may take: what asks for more is refused by name, before the system kills the process.
#pragma once
#include <cstdint>
#include <string_view>

namespace stof {

// The memory of the machine, or what the process's control group (version 2) leaves of it; read once.
std::uint64_t memory_limit();

// For what is made of several pieces, or grows as it is made. Throws device when `what` takes more than there may be.
void check_memory(std::string_view what, double bytes);

}  // namespace stof
