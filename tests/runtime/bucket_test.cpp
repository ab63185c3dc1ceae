// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/bucket.h"

#include <gtest/gtest.h>

#include <set>

namespace stof {
namespace {

TEST(Bucket, HoldsTheCallAndLittleMore) {
  std::int64_t before = 0;
  for (std::int64_t rows = 1; rows <= 70000; ++rows) {
    const std::int64_t rounded = bucket_rows(rows);
    ASSERT_GE(rounded, rows);
    ASSERT_EQ(rounded % 16, 0);
    ASSERT_LE(rounded, std::max(rows + 15, rows + rows / 8));
    ASSERT_GE(rounded, before);  // more rows never take fewer
    ASSERT_EQ(bucket_rows(rounded), rounded);
    before = rounded;
  }
  EXPECT_EQ(bucket_rows(0), 0);
}

TEST(Bucket, LeavesCommonSizesAlone) {
  EXPECT_EQ(bucket_of({128, 1, 128}, 512), (Bucket{128, 1, 128}));
  EXPECT_EQ(bucket_of({4096, 8, 512}, 512), (Bucket{4096, 8, 512}));
  EXPECT_EQ(bucket_of({32768, 16, 2048}, 2048), (Bucket{32768, 16, 2048}));
}

TEST(Bucket, RoundsTextsAndLengths) {
  EXPECT_EQ(bucket_of({1, 1, 1}, 512), (Bucket{16, 1, 64}));
  EXPECT_EQ(bucket_of({700, 33, 65}, 512), (Bucket{704, 64, 128}));
  EXPECT_EQ(bucket_of({700, 32, 300}, 512), (Bucket{704, 32, 384}));
  EXPECT_EQ(bucket_of({96, 1, 96}, 96), (Bucket{96, 1, 96}));  // never longer than the model's texts
}

TEST(Bucket, AreFew) {
  std::set<std::int64_t> sizes;
  for (std::int64_t rows = 1; rows <= 16384; ++rows) sizes.insert(bucket_rows(rows));
  EXPECT_EQ(sizes.size(), 8u + 7u * 8u);  // multiples of 16 up to 128, then eight a doubling
}

}  // namespace
}  // namespace stof
