// SPDX-License-Identifier: Apache-2.0
// What tests of whole models on a GPU begin with. Skipped where there is no GPU, or none that models run on.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>

#include "src/backend/cuda/driver/api.h"
#include "src/backend/cuda/driver/blas.h"
#include "tests/source_folder.h"

namespace stof {

inline std::filesystem::path families() { return source_folder() / "tests/data/families"; }

class CudaSession : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::missing_driver().empty()) GTEST_SKIP() << cuda::missing_driver();
    if (!cuda::missing_blas().empty()) GTEST_SKIP() << cuda::missing_blas();
  }
};

}  // namespace stof
