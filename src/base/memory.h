// SPDX-License-Identifier: Apache-2.0
// How much memory this process may take: what asks for more is refused by name, before the system kills the process.
#pragma once
#include <cstdint>

namespace stof {

// The memory of the machine, or what the process's control group (version 2) leaves of it; read once.
std::uint64_t memory_limit();

}  // namespace stof
