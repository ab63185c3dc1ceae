// SPDX-License-Identifier: Apache-2.0
// Booleans to bits, with the widest vectors of this machine.
#pragma once
#include <cstddef>
#include <cstdint>

namespace stof {

// Bit i of `words`, least significant first, is bytes[i] != 0; bits past `count` in the last word are 0.
void pack_bytes(const std::uint8_t* bytes, std::size_t count, std::uint64_t* words);

}  // namespace stof
