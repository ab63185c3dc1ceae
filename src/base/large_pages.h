// SPDX-License-Identifier: Apache-2.0
// Fewer page faults for big buffers that are written once.
#pragma once
#include <cstddef>

namespace stof {

constexpr std::size_t kLargePage = std::size_t{2} << 20;  // of x86-64, and of AArch64 with pages of 4 KiB

// Asks for large pages where [memory, memory + bytes) holds whole ones; to be called before the memory is touched.
// Only advice: nothing happens where the system has none to give.
void prefer_large_pages(void* memory, std::size_t bytes) noexcept;

}  // namespace stof
