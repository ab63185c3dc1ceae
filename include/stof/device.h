// SPDX-License-Identifier: Apache-2.0
// Where work runs. A Device is a value: a backend, which of its devices, and what that device can do.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace stof {

struct Backend;  // src/backend/contract.h

struct DeviceCaps {
  std::string name;          // "AVX-512, bf16 dot product", "NVIDIA H200"
  int cores = 1;             // CPU threads in use, or multiprocessors
  int arch = 0;              // CUDA compute capability * 10 (90), 0 on the CPU
  bool bf16_dot = false;     // a bf16 dot-product instruction
  bool bf16_matrix = false;  // matrix registers that multiply bf16 (AMX)
  friend bool operator==(const DeviceCaps&, const DeviceCaps&) = default;
};

struct Device {
  const Backend* backend = nullptr;
  int ordinal = 0;
  DeviceCaps caps;
};

// "cpu", "cuda", "cuda:N", or "auto" (CUDA where there is one, else the CPU). Throws invalid_argument for another name,
// device when the device cannot be used, with the reason.
Device open_device(std::string_view name);

}  // namespace stof
