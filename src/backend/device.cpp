// SPDX-License-Identifier: Apache-2.0
#include "stof/device.h"

#include <fmt/format.h>
#include <hwy/targets.h>
#include <omp.h>

#include <algorithm>
#include <charconv>

#include "src/backend/contract.h"
#include "src/base/error.h"

namespace stof {
namespace {

DeviceCaps cpu_caps() {
  DeviceCaps caps;
  // The best of the instruction sets that the kernels are built for (kernels/cpu/targets.h).
  const auto supported = hwy::SupportedTargets();
  caps.name = (supported & HWY_AVX3) != 0 ? "AVX-512" : (supported & HWY_AVX2) != 0 ? "AVX2" : "SSE4";
  caps.cores = std::max(1, omp_get_max_threads());
#if defined(__x86_64__)
  caps.bf16_dot = (supported & HWY_AVX3) != 0 && __builtin_cpu_supports("avx512bf16") != 0;
#endif
  if (caps.bf16_dot) caps.name += ", bf16 dot product";
  return caps;
}

bool is_cuda(std::string_view name) {
  if (name == "cuda") return true;
  if (!name.starts_with("cuda:")) return false;
  int ordinal = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + 5, end, ordinal);
  return error == std::errc() && rest == end && ordinal >= 0;
}

}  // namespace

Device open_device(std::string_view name) {
  if (name == "cpu" || name == "auto") return {.backend = &cpu_backend, .ordinal = 0, .caps = cpu_caps()};
  if (is_cuda(name))
    fail(ErrorKind::device, "device '{}' cannot be used: this build has no CUDA backend; accepted here: cpu, auto",
         name);
  fail(ErrorKind::invalid_argument, "unknown device '{}'; accepted: auto, cpu, cuda, cuda:N", name);
}

}  // namespace stof
