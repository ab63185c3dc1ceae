// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/device_side.h"

#include <cstring>

#include "src/base/error.h"
#include "src/tensor/convert.h"

namespace stof {

DeviceSide::DeviceSide(const Device& device) : device_(device) {
  if (device.backend->open_stream == nullptr) return;
  stream_ = device.backend->open_stream(device);
  workspace_ = stream_->device_memory(device.backend->matmul.workspace_bytes);
}

DeviceSide::~DeviceSide() {
  try {
    wait();
  } catch (const Error&) {  // the call that put the work there has said it
  }
}

WorkQueue DeviceSide::queue() const {
  if (!stream_) return {};
  return {.device = &device_,
          .stream = stream_->handle(),
          .workspace = workspace_.get(),
          .workspace_bytes = device_.backend->matmul.workspace_bytes};
}

std::shared_ptr<void> DeviceSide::unset_memory(std::int64_t bytes) {
  if (stream_) return stream_->device_memory(static_cast<std::size_t>(bytes));
  const auto tensor = std::make_shared<Tensor>(DType::boolean, Shape{bytes});
  return {tensor, tensor->data()};
}

std::shared_ptr<void> DeviceSide::host_memory(std::int64_t bytes) {
  return stream_->host_memory(static_cast<std::size_t>(bytes));
}

std::shared_ptr<void> DeviceSide::memory(std::int64_t bytes) {
  std::shared_ptr<void> memory = unset_memory(bytes);
  if (!stream_ && bytes > 0) std::memset(memory.get(), 0, static_cast<std::size_t>(bytes));
  return memory;
}

std::span<const std::int32_t> DeviceSide::put(std::span<const std::int32_t> numbers) {
  const auto bytes = static_cast<std::int64_t>(numbers.size_bytes());
  numbers_.reserve(bytes, [this](std::size_t size) { return memory(static_cast<std::int64_t>(size)); });
  if (stream_) host_numbers_.reserve(bytes, [this](std::size_t size) { return stream_->host_memory(size); });
  std::memcpy((stream_ ? host_numbers_ : numbers_).data(), numbers.data(), numbers.size_bytes());
  return {reinterpret_cast<const std::int32_t*>(numbers_.data()), numbers.size()};
}

void DeviceSide::bring(std::span<const std::int32_t> put) {
  if (stream_) stream_->copy_in(numbers_.data(), host_numbers_.data(), put.size_bytes());
}

void DeviceSide::copy(void* to, const void* from, std::int64_t bytes) {
  if (stream_) stream_->copy(to, from, static_cast<std::size_t>(bytes));
  else std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

void DeviceSide::bring_back(void* to, const void* from, std::int64_t bytes) {
  stream_->copy_out(to, from, static_cast<std::size_t>(bytes));
}

void DeviceSide::wait() {
  if (stream_) stream_->synchronize();
}

Tensor DeviceSide::fetch(const void* values, DType dtype, const Shape& shape) {
  if (!stream_) return converted(view_of(const_cast<void*>(values), dtype, shape), DType::f32);
  Tensor fetched(dtype, shape);
  stream_->copy_out(fetched.data(), values, fetched.bytes());
  stream_->synchronize();
  return dtype == DType::f32 ? std::move(fetched) : converted(fetched.view(), DType::f32);
}

}  // namespace stof
