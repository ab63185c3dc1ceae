// SPDX-License-Identifier: Apache-2.0
#include "src/base/large_pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace stof {

void prefer_large_pages(void* memory, std::size_t bytes) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t begin = (address + kLargePage - 1) / kLargePage * kLargePage;
  const std::uintptr_t end = (address + bytes) / kLargePage * kLargePage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace stof
