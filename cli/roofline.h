// SPDX-License-Identifier: Apache-2.0
// What this machine can do at best, measured in the same run as what is compared with it.
#pragma once
#include <memory>

#include "cli/json_output.h"
#include "cli/peak_matmul.h"
#include "stof/device.h"
#include "stof/tensor.h"

namespace stof::cli {

struct Roofline {
  double f32_gflops = 0, bf16_gflops = 0;  // of the fastest matmul; 0: the device has none. f16 is as fast as bf16
  double copy_gb_s = 0;                    // read and written
  double clock_ghz = 0;                    // under a load of one thread

  std::shared_ptr<const PeakMatmul> f32_matmul = {}, bf16_matmul = {};  // that reached those; null: of a GPU, or none

  double gflops(DType dtype) const { return dtype != DType::f32 && bf16_gflops > 0 ? bf16_gflops : f32_gflops; }
  const PeakMatmul* matmul(DType dtype) const {
    return (dtype != DType::f32 && bf16_matmul ? bf16_matmul : f32_matmul).get();
  }
};

// Takes about a second. Of a GPU the matmuls; copies and clock are the host's.
Roofline measure_roofline(const Device& device);

Json json_of(const Roofline& roofline);

}  // namespace stof::cli
