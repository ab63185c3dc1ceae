// SPDX-License-Identifier: Apache-2.0
// What `stof doctor` finds out about this machine. Nothing here is required: what is absent stays empty.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace stof::cli {

struct CpuFacts {
  std::string name;
  int cores = 0;                              // physical, of the whole machine; 0 when it does not say
  int threads = 0;                            // hardware threads that this process may use
  std::vector<std::string> instruction_sets;  // Highway's names, best first
  bool bf16_dot = false;                      // the AVX512_BF16 dot product
  bool bf16_matrix = false;                   // AMX, which this process may use
  std::uint64_t memory_bytes = 0, available_bytes = 0;
};

struct GpuDevice {
  std::string name;
  std::string compute_capability;  // "9.0"
  std::uint64_t memory_bytes = 0;
  int clock_mhz = 0, memory_clock_mhz = 0;  // at most; 0 when the driver does not say
};

struct GpuFacts {
  std::optional<std::string> driver;  // "580.65.06"
  std::optional<std::string> cuda;    // the newest CUDA version that the driver serves
  std::optional<std::string> nvrtc;
  std::optional<std::string> blas;  // cuBLASLt
  std::vector<GpuDevice> devices;
  std::string problem;  // why a driver that is there gives no device
};

struct CacheFacts {
  std::filesystem::path folder;
  bool writable = false;
  std::string problem = {};       // why there is none
  std::string ignored_home = {};  // a relative XDG_CACHE_HOME
};

CpuFacts probe_cpu();
GpuFacts probe_gpu();  // loads libcuda, libnvidia-ml, libnvrtc and libcublasLt by name, if they are there
CacheFacts probe_cache();

}  // namespace stof::cli
