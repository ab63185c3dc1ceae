// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/memory.h"

#include "src/backend/cuda/driver/device.h"
#include "src/backend/cuda/driver/device_memory.h"
#include "src/base/error.h"

namespace stof::cuda {
namespace {

std::shared_ptr<void> copy_to(const Device& device, std::span<const std::byte> from, std::size_t offset) {
  const Gpu& there = gpu_of(device);
  auto memory = std::make_shared<DeviceMemory>(there, offset + from.size());
  copy_in(there, memory->address() + offset, from);
  void* const address = memory->as<std::byte>() + offset;
  return {std::move(memory), address};
}

void copy_back(const Device& device, std::span<std::byte> to, const void* from) {
  copy_out(gpu_of(device), to, reinterpret_cast<DevicePointer>(from));
}

std::int64_t left_on(const Device& device) {
  const CurrentGpu current(gpu_of(device));
  std::size_t left = 0, total = 0;
  driver().memory_left(&left, &total);
  return static_cast<std::int64_t>(left);
}

}  // namespace

const MemoryOperations memory_operations{
    .copy_in = copy_to, .copy_out = copy_back, .owner = gpu_behind, .left = left_on};

void check_address(const Device& device, std::string_view name, const void* address) {
  if (address == nullptr) fail(ErrorKind::invalid_argument, "attention: {} is a null pointer", name);
  int ordinal = -1;
  const Status status =
      driver().pointer_attribute.attempt(&ordinal, kPointerOrdinal, reinterpret_cast<DevicePointer>(address));
  if (status != kSuccess)
    fail(ErrorKind::invalid_argument, "attention: {} is not memory of a GPU; this plan runs on cuda:{}", name,
         device.ordinal);
  if (ordinal != device.ordinal)
    fail(ErrorKind::invalid_argument, "attention: {} is memory of cuda:{}; this plan runs on cuda:{}", name, ordinal,
         device.ordinal);
}

std::optional<int> gpu_behind(const void* address) {
  if (address == nullptr || !driver_is_loaded() || !missing_driver().empty()) return std::nullopt;
  const auto ask = [where = reinterpret_cast<DevicePointer>(address)](auto& answer, int attribute) {
    return driver().pointer_attribute.attempt(&answer, attribute, where) == kSuccess;
  };
  unsigned kind = 0, managed = 0;
  int ordinal = 0;
  if (!ask(kind, kPointerMemoryType) || kind != kMemoryOfDevice) return std::nullopt;
  if (ask(managed, kPointerIsManaged) && managed != 0) return std::nullopt;
  return ask(ordinal, kPointerOrdinal) ? std::optional(ordinal) : std::nullopt;
}

}  // namespace stof::cuda
