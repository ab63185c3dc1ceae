// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/driver/device.h"

#include <array>

#include "src/backend/contract.h"
#include "src/base/error.h"

namespace stof::cuda {
namespace {

struct Description {
  std::string_view name;
  const char* product;
  std::string_view itself;  // what the driver calls it
  int multiprocessors, arch;
};

constexpr std::array<Description, 3> kDescriptions{{
    {"cuda:h200", "NVIDIA H200 (described)", "NVIDIA H200", 132, 90},
    {"cuda:h100", "NVIDIA H100 SXM (described)", "NVIDIA H100 80GB HBM3", 132, 90},
    {"cuda:a100", "NVIDIA A100 (described)", "NVIDIA A100-SXM4-80GB", 108, 80},
}};

}  // namespace

std::optional<DeviceCaps> described(std::string_view name) {
  for (const Description& description : kDescriptions)
    if (description.name == name)
      return DeviceCaps{.name = description.product, .cores = description.multiprocessors, .arch = description.arch};
  return std::nullopt;
}

std::vector<std::string_view> described_names() {
  std::vector<std::string_view> names;
  for (const Description& description : kDescriptions) names.push_back(description.name);
  return names;
}

std::string_view driver_name(std::string_view device) {
  for (const Description& description : kDescriptions)
    if (description.product == device) return description.itself;
  return device;
}

Device open(int ordinal) { return {.backend = &cuda_backend, .ordinal = ordinal, .caps = gpu(ordinal).caps}; }
Device open_described(const DeviceCaps& caps) {
  return {.backend = &cuda_backend, .ordinal = kDescribed, .caps = caps};
}

const Gpu& gpu_of(const Device& device) {
  if (device.ordinal == kDescribed)
    fail(ErrorKind::device, "{} is a description to plan with; accepted for running: cuda, cuda:N", device.caps.name);
  return gpu(device.ordinal);
}

}  // namespace stof::cuda
