// SPDX-License-Identifier: Apache-2.0
// STOF_TEST_GPU=80: to a test program GPUs count as of compute capability 8.0, and what they run is what GPUs of it do.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "src/backend/cuda/driver/gpu.h"

namespace stof {
namespace {

class GpuOfRun : public testing::Environment {
 public:
  void SetUp() override {
    const char* const arch = std::getenv("STOF_TEST_GPU");
    if (arch == nullptr) return;
    ASSERT_EQ(std::string_view(arch), "80") << "of STOF_TEST_GPU; accepted: 80";
    cuda::count_gpus_as(80);
  }
};
const testing::Environment* const kGpuOfRun = testing::AddGlobalTestEnvironment(new GpuOfRun);

}  // namespace
}  // namespace stof
