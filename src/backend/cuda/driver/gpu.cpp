// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/driver/gpu.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>

#include "src/base/error.h"

namespace stof::cuda {
namespace {

std::atomic<int> most_arch = 1000;

int attribute(DeviceOrdinal device, DeviceAttribute which) {
  int value = 0;
  driver().device_attribute(&value, which, device);
  return value;
}

Gpu open(int ordinal) {
  const Driver& api = driver();
  int count = 0;
  api.device_count(&count);
  if (ordinal < 0 || ordinal >= count)
    fail(ErrorKind::device, "device 'cuda:{}' is not there; accepted here: cuda:0 to cuda:{}", ordinal, count - 1);
  Gpu gpu{.ordinal = ordinal, .caps = {}};
  api.device(&gpu.device, ordinal);
  std::array<char, 256> name{};
  api.device_name(name.data(), static_cast<int>(name.size()), gpu.device);
  gpu.caps.name = name.data();
  gpu.caps.cores = attribute(gpu.device, DeviceAttribute::multiprocessors);
  const int arch = 10 * attribute(gpu.device, DeviceAttribute::capability_major) +
                   attribute(gpu.device, DeviceAttribute::capability_minor);
  gpu.caps.arch = std::min<int>(arch, most_arch);
  gpu.counts_as_older = gpu.caps.arch < arch;
  gpu.shared_bytes_per_block = attribute(gpu.device, DeviceAttribute::shared_bytes_per_block);
  gpu.l2_bytes = attribute(gpu.device, DeviceAttribute::l2_cache_bytes);
  api.retain_context(&gpu.context, gpu.device);
  return gpu;
}

}  // namespace

void count_gpus_as(int arch) { most_arch = arch; }

const Gpu& gpu(int ordinal) {
  static std::mutex mutex;
  static std::map<int, Gpu> opened;  // addresses of its values do not change
  const std::lock_guard lock(mutex);
  if (const auto found = opened.find(ordinal); found != opened.end()) return found->second;
  return opened.emplace(ordinal, open(ordinal)).first->second;
}

}  // namespace stof::cuda
