// SPDX-License-Identifier: Apache-2.0
// NVIDIA GPUs, through the driver's own libraries, loaded by name so that the same program starts where there are none.
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <initializer_list>

#include "cli/machine.h"
#include "src/backend/cuda/driver/blas.h"

namespace stof::cli {
namespace {

// Stays loaded until the program ends: NVRTC keeps memory that it does not free when it is unloaded.
using Library = void*;

Library open_any(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (Library library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

// A function of the library by its C signature; empty when the library lacks it.
template <class Signature>
Signature* symbol(Library library, const char* name) {
  return reinterpret_cast<Signature*>(dlsym(library, name));
}

// The driver API reports success as 0; the attributes are numbered in cuda.h.
constexpr int kClock = 13;
constexpr int kMemoryClock = 36;
constexpr int kComputeCapabilityMajor = 75;
constexpr int kComputeCapabilityMinor = 76;

GpuDevice describe(Library cuda, int ordinal) {
  GpuDevice device;
  std::array<char, 256> name{};
  int major = 0, minor = 0;
  std::size_t bytes = 0;
  if (auto* get_name = symbol<int(char*, int, int)>(cuda, "cuDeviceGetName"))
    if (get_name(name.data(), static_cast<int>(name.size()), ordinal) == 0) device.name = name.data();
  auto* const attribute = symbol<int(int*, int, int)>(cuda, "cuDeviceGetAttribute");
  const auto megahertz = [&](int which) {
    int kilohertz = 0;
    return attribute && attribute(&kilohertz, which, ordinal) == 0 ? kilohertz / 1000 : 0;
  };
  device.clock_mhz = megahertz(kClock);
  device.memory_clock_mhz = megahertz(kMemoryClock);
  if (attribute)
    if (attribute(&major, kComputeCapabilityMajor, ordinal) == 0 &&
        attribute(&minor, kComputeCapabilityMinor, ordinal) == 0)
      device.compute_capability = fmt::format("{}.{}", major, minor);
  if (auto* total = symbol<int(std::size_t*, int)>(cuda, "cuDeviceTotalMem_v2"))
    if (total(&bytes, ordinal) == 0) device.memory_bytes = bytes;
  return device;
}

void probe_cuda(GpuFacts& facts) {
  Library cuda = open_any({"libcuda.so.1"});
  if (!cuda) return;
  int version = 0, count = 0;
  if (auto* get_version = symbol<int(int*)>(cuda, "cuDriverGetVersion"); get_version && get_version(&version) == 0)
    facts.cuda = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  auto* init = symbol<int(unsigned)>(cuda, "cuInit");
  auto* get_count = symbol<int(int*)>(cuda, "cuDeviceGetCount");
  if (!init || !get_count) {
    facts.problem = "libcuda.so.1 is there but lacks cuInit or cuDeviceGetCount";
    return;
  }
  int status = init(0);
  if (status == 0) status = get_count(&count);
  if (status != 0) facts.problem = fmt::format("libcuda.so.1 is there but finds no device (CUDA error {})", status);
  for (int ordinal = 0; ordinal < count; ++ordinal) facts.devices.push_back(describe(cuda, ordinal));
}

void probe_driver(GpuFacts& facts) {
  Library nvml = open_any({"libnvidia-ml.so.1"});
  if (!nvml) return;
  auto* init = symbol<int()>(nvml, "nvmlInit_v2");
  auto* version = symbol<int(char*, unsigned)>(nvml, "nvmlSystemGetDriverVersion");
  auto* shutdown = symbol<int()>(nvml, "nvmlShutdown");
  std::array<char, 96> text{};
  if (!init || !version || !shutdown || init() != 0) return;
  if (version(text.data(), static_cast<unsigned>(text.size())) == 0) facts.driver = text.data();
  shutdown();
}

void probe_nvrtc(GpuFacts& facts) {
  Library nvrtc = open_any({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"});
  if (!nvrtc) return;
  int major = 0, minor = 0;
  if (auto* version = symbol<int(int*, int*)>(nvrtc, "nvrtcVersion"); version && version(&major, &minor) == 0)
    facts.nvrtc = fmt::format("{}.{}", major, minor);
}

}  // namespace

GpuFacts probe_gpu() {
  GpuFacts facts;
  probe_driver(facts);
  probe_cuda(facts);
  probe_nvrtc(facts);
  if (cuda::missing_blas().empty()) facts.blas = cuda::blas_version();
  return facts;
}

}  // namespace stof::cli
