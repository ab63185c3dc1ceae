// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/driver/kernel.h"

#include <algorithm>
#include <array>

#include "src/base/error.h"

namespace stof::cuda {

KernelLibrary::KernelLibrary(const Gpu& gpu, std::span<const std::byte> cubin) : gpu_(&gpu) {
  const CurrentGpu current(gpu);
  driver().load_library(&handle_, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
}

KernelLibrary::~KernelLibrary() {
  ContextHandle popped = nullptr;
  if (handle_ == nullptr || driver().push_context.attempt(gpu_->context) != kSuccess) return;
  driver().unload_library.attempt(handle_);
  driver().pop_context.attempt(&popped);
}

Kernel::Kernel(const KernelLibrary& library, const std::string& name, unsigned threads, unsigned dynamic_shared_bytes)
    : gpu_(&library.gpu()), threads_(threads), dynamic_shared_bytes_(dynamic_shared_bytes) {
  const CurrentGpu current(*gpu_);
  driver().kernel(&handle_, library.handle(), name.c_str());
  driver().kernel_function(&function_, handle_);
  if (dynamic_shared_bytes > static_cast<unsigned>(gpu_->shared_bytes_per_block))
    fail(ErrorKind::unsupported, "kernel {} needs {} bytes of shared memory; cuda:{} has {}", name,
         dynamic_shared_bytes, gpu_->ordinal, gpu_->shared_bytes_per_block);
  allow_shared_bytes(dynamic_shared_bytes);
}

void Kernel::allow_shared_bytes(unsigned bytes) const {
  const CurrentGpu current(*gpu_);
  driver().set_kernel_attribute(KernelAttribute::dynamic_shared_bytes, static_cast<int>(bytes), handle_, gpu_->device);
}

int Kernel::blocks_per_multiprocessor() const {
  const CurrentGpu current(*gpu_);
  int blocks = 0;
  driver().blocks_per_multiprocessor(&blocks, function_, static_cast<int>(threads_), dynamic_shared_bytes_);
  return blocks;
}

void Kernel::launch(const Launch& launch, std::span<void* const> arguments) const {
  const Dimensions& grid = launch.grid;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  std::array<LaunchAttribute, 2> attributes{};
  unsigned count = 0;
  if (launch.cluster > 1) attributes[count++] = {LaunchAttributeKind::cluster, 0, {launch.cluster, 1, 1}};
  if (launch.overlap_previous) attributes[count++] = {LaunchAttributeKind::programmatic_serialization, 0, {1}};
  const LaunchConfig config{.grid = {grid.x, grid.y, grid.z},
                            .block = {threads_, 1, 1},
                            .dynamic_shared_bytes = std::max(dynamic_shared_bytes_, launch.least_shared_bytes),
                            .stream = launch.stream,
                            .attributes = attributes.data(),
                            .attribute_count = count};
  const CurrentGpu current(*gpu_);
  driver().launch(&config, function_, const_cast<void**>(arguments.data()), nullptr);
}

}  // namespace stof::cuda
