// SPDX-License-Identifier: Apache-2.0
// How the GEMM kernels divide by the tiles of a row: needs no device.
#include <gtest/gtest.h>

#include "kernels/shared/gemm.h"
#include "src/backend/cuda/matmul/gemm.h"

namespace stof {
namespace {

TEST(TileOrder, HighWordsOfProductsAreQuotients) {
  constexpr std::uint64_t kEnd = std::uint64_t{1} << 28;
  for (std::uint64_t width = 2; width <= cuda::kGemmSection; ++width) {
    const std::uint64_t inverse = cuda::inverse_of(static_cast<std::int64_t>(width));
    // A quotient goes wrong, where it does, beside a multiple, and first among the large ones.
    for (std::uint64_t multiple = kEnd / width * width; multiple > kEnd - 1000000; multiple -= width)
      for (const std::uint64_t n : {multiple - 1, multiple, multiple + 1}) {
        if (n >= kEnd) continue;
        ASSERT_EQ(n * inverse >> 32, n / width) << n << " by " << width;
      }
    for (std::uint64_t n = 0; n < 10000; ++n) ASSERT_EQ(n * inverse >> 32, n / width) << n << " by " << width;
  }
  EXPECT_EQ(cuda::inverse_of(1), 0u);
}

}  // namespace
}  // namespace stof
