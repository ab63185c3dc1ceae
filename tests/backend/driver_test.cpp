// SPDX-License-Identifier: Apache-2.0
// The host side of the CUDA driver layer: what it says where there is no driver, and what it refuses before the driver
// is asked.
#include <gtest/gtest.h>

#include "src/backend/cuda/driver/gpu.h"
#include "src/backend/cuda/driver/tensor_map.h"
#include "tests/expect_error.h"

namespace stof::cuda {
namespace {

TensorBox box() {
  return {.name = "q",
          .element = TensorElement::f16,
          .base = reinterpret_cast<const void*>(std::uintptr_t{4096}),
          .sizes = {64, 100, 1, 12, 2},
          .strides = {64, 0, 6400, 76800},
          .box = {64, 64, 1, 1, 1}};
}

TEST(TensorMap, TakesAlignedTensors) {
  EXPECT_EQ(refuses(box()), std::nullopt);
  TensorBox single = box();
  single.strides[1] = 3;  // of a dimension with one element: never used
  EXPECT_EQ(refuses(single), std::nullopt);
  TensorBox shared = box();
  shared.strides[2] = 0;  // every head reads the same
  EXPECT_EQ(refuses(shared), std::nullopt);
}

TEST(TensorMap, RefusesWhatTheCopyEngineCannotTake) {
  TensorBox tensor = box();
  tensor.base = reinterpret_cast<const void*>(std::uintptr_t{4098});
  EXPECT_EQ(refuses(tensor), "q is 2 bytes past a multiple of 16, and the copy engine takes only multiples");
  EXPECT_ERROR(encode(tensor), ErrorKind::unsupported,
               "q is 2 bytes past a multiple of 16, and the copy engine takes only multiples");
  tensor = box();
  tensor.strides[0] = 68;
  EXPECT_EQ(refuses(tensor),
            "q has a stride of 136 bytes; the copy engine takes multiples of 16 from 0 to 1099511627760");
  tensor.strides[0] = -64;
  EXPECT_EQ(refuses(tensor),
            "q has a stride of -128 bytes; the copy engine takes multiples of 16 from 0 to 1099511627760");
  tensor.strides[0] = std::int64_t{1} << 39;
  EXPECT_EQ(refuses(tensor),
            "q has a stride of 1099511627776 bytes; the copy engine takes multiples of 16 from 0 to 1099511627760");
  tensor = box();
  tensor.sizes[3] = 0;
  EXPECT_EQ(refuses(tensor), "q has 0 elements in dimension 3; the copy engine takes 1 to 4294967296");
}

TEST(Driver, SaysWhatIsMissing) {
  const std::string missing = missing_driver();
  if (missing.empty()) {
    EXPECT_NE(gpu(0).context, nullptr);
    EXPECT_GT(gpu(0).caps.cores, 0);
    EXPECT_EQ(&gpu(0), &gpu(0));
    EXPECT_THROW(gpu(1000), Error);
    EXPECT_ERROR(fail_call("cuMemAllocHost_v2", kOutOfMemory), ErrorKind::device,
                 "out of memory: cuMemAllocHost_v2: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
  } else {
    EXPECT_EQ(missing.find("the NVIDIA driver"), 0u) << missing;
    EXPECT_ERROR(driver(), ErrorKind::device, missing);
    EXPECT_ERROR(gpu(0), ErrorKind::device, missing);
  }
}

TEST(Driver, ALibraryThatLacksAFunctionIsTooOld) {
  EXPECT_ERROR(load_symbol(nullptr, "cuNoSuchFunction"), ErrorKind::device,
               "the NVIDIA driver is too old: it lacks cuNoSuchFunction; accepted: 525 (CUDA 12.0) or later");
}

}  // namespace
}  // namespace stof::cuda
