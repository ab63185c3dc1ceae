// SPDX-License-Identifier: Apache-2.0
#include "stof/device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hwy/targets.h>
#include <omp.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "src/backend/contract.h"
#include "src/backend/cuda/driver/api.h"
#include "src/backend/cuda/driver/device.h"
#include "src/base/env.h"
#include "src/base/error.h"
#include "src/base/matrix_registers.h"
#include "stof/session.h"

namespace stof {
namespace {

DeviceCaps cpu_caps() {
  DeviceCaps caps;
  // The best of the instruction sets that the kernels are built for (kernels/cpu/targets.h).
  const auto supported = hwy::SupportedTargets();
  caps.name = (supported & HWY_AVX3) != 0 ? "AVX-512" : (supported & HWY_AVX2) != 0 ? "AVX2" : "SSE4";
  caps.cores = std::max(1, omp_get_max_threads());
  // OpenMP's library keeps what it needs for a team on the stack, which 100,000 threads would leave.
  if (caps.cores > kMostThreads) {
    if (names_threads())
      fail(ErrorKind::invalid_argument, "OpenMP would take {} threads (OMP_NUM_THREADS); accepted: at most {}",
           caps.cores, kMostThreads);
    omp_set_num_threads(caps.cores = kMostThreads);  // as many processors as that nobody asked for
  }
#if defined(__x86_64__)
  caps.bf16_dot = (supported & HWY_AVX3) != 0 && __builtin_cpu_supports("avx512bf16") != 0;
#endif
  caps.bf16_matrix = caps.bf16_dot && may_use_matrix_registers();
  if (caps.bf16_dot) caps.name += ", bf16 dot product";
  if (caps.bf16_matrix) caps.name += ", AMX";
  return caps;
}

// "cuda", "cuda:N"; empty for another name.
std::optional<int> cuda_ordinal(std::string_view name) {
  if (name == "cuda") return 0;
  if (!name.starts_with("cuda:")) return std::nullopt;
  int ordinal = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + 5, end, ordinal);
  if (error != std::errc() || rest != end || ordinal < 0) return std::nullopt;
  return ordinal;
}

Device open_cuda(std::string_view name, int ordinal) {
  if (const std::string missing = cuda::missing_driver(); !missing.empty())
    fail(ErrorKind::device, "device '{}' cannot be used: {}; accepted here: cpu, auto", name, missing);
  return cuda::open(ordinal);
}

}  // namespace

Device open_device(std::string_view name) {
  const bool automatic = name == "auto";
  if (name == "cpu" || (automatic && !cuda::missing_driver().empty()))
    return {.backend = &cpu_backend, .ordinal = 0, .caps = cpu_caps()};
  if (automatic) return cuda::open(0);
  if (const std::optional<int> ordinal = cuda_ordinal(name)) return open_cuda(name, *ordinal);
  if (const std::optional<DeviceCaps> caps = cuda::described(name)) return cuda::open_described(*caps);
  fail(ErrorKind::invalid_argument, "unknown device '{}'; accepted: auto, cpu, cuda, cuda:N; to plan for: {}", name,
       fmt::join(cuda::described_names(), ", "));
}

}  // namespace stof
