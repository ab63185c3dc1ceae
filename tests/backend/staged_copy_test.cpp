// SPDX-License-Identifier: Apache-2.0
// Large copies to a GPU, in halves of pinned memory. The driver is one that has no GPU (tests/capi/fake_driver.c).
#include "src/backend/cuda/driver/staged_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace stof::cuda {
namespace {

constexpr std::size_t kMost = (std::size_t{33} << 20) + 5;  // five halves, the last one short

std::vector<std::byte> numbered(std::size_t bytes, unsigned first) {
  std::vector<std::byte> values(bytes);
  for (std::size_t i = 0; i < bytes; ++i) values[i] = static_cast<std::byte>((i * 2654435761u + first) >> 11);
  return values;
}

void expect_copied(const DeviceMemory& there, unsigned first) {
  const std::size_t bytes = there.bytes();
  const std::vector<std::byte> values = numbered(bytes, first);
  std::vector<std::byte> back(bytes + 1, std::byte{77});
  copy_in(gpu(0), there.address(), values);
  copy_out(gpu(0), std::span(back).first(bytes), there.address());
  EXPECT_TRUE(std::equal(values.begin(), values.end(), back.begin())) << bytes;
  EXPECT_EQ(back.back(), std::byte{77});
}

TEST(StagedCopy, IsThereForLargePieces) {
  ASSERT_NE(StagedCopy::of(gpu(0)), nullptr);
  EXPECT_EQ(StagedCopy::of(gpu(0)), StagedCopy::of(gpu(0)));
}

TEST(StagedCopy, BringsEveryByte) {
  for (const std::size_t bytes :
       {std::size_t{1}, StagedCopy::kLeastBytes - 1, StagedCopy::kLeastBytes, StagedCopy::kLeastBytes + 1, kMost})
    expect_copied(DeviceMemory(gpu(0), bytes), static_cast<unsigned>(bytes));
}

TEST(StagedCopy, OfThreadsDoNotMeet) {
  std::vector<DeviceMemory> there;
  for (std::size_t of = 0; of < 3; ++of) there.emplace_back(gpu(0), kMost - of);
  std::vector<std::thread> threads;
  for (unsigned of = 0; of < 3; ++of) threads.emplace_back([&there, of] { expect_copied(there[of], of); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace stof::cuda
