// SPDX-License-Identifier: Apache-2.0
#include "src/attention/host_tensors.h"

#include <algorithm>

#include "src/backend/contract.h"
#include "src/base/error.h"

namespace stof {
namespace {

// From the first element to the last, padding between them included.
std::span<std::byte> bytes_of(const TensorView& tensor) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < tensor.rank(); ++i) {
    if (tensor.dim(i) == 0) return {};
    STOF_CHECK(tensor.strides[i] >= 0);
    last += (tensor.dim(i) - 1) * tensor.strides[i];
  }
  return {static_cast<std::byte*>(tensor.data), static_cast<std::size_t>(last + 1) * size_of(tensor.dtype)};
}

}  // namespace

DeviceArguments::DeviceArguments(const AttentionArguments& host, const Device& device)
    : host_(host), there_(host), device_(device) {
  if (device.backend->memory == nullptr) return;
  there_.q = copied(host.q);
  there_.k = copied(host.k);
  there_.v = copied(host.v);
  there_.out = copied(host.out);
  if (host.lse) there_.lse = copied(*host.lse);
  if (host.page_table) there_.page_table = copied(*host.page_table);
  if (host.device_kv_lengths) there_.device_kv_lengths = copied(*host.device_kv_lengths);
  if (host.tree) there_.tree = copied(*host.tree);
  copy_lists();
  if (host.relative_bias != nullptr) {
    bias_ = std::make_shared<const RelativeBias>(host.relative_bias->on(device));
    there_.relative_bias = bias_.get();
  }
  if (!host.rows) return;
  there_.rows->starts = copied(host.rows->starts, host.rows->items);
  there_.rows->lengths = copied(host.rows->lengths, host.rows->items);
}

void DeviceArguments::copy_lists() {
  if (!host_.device_lengths) return;
  const DeviceLengths& host = *host_.device_lengths;
  DeviceLengths& there = *there_.device_lengths;
  const auto list = [&](const std::int32_t* numbers, std::int64_t count) {
    return numbers == nullptr ? nullptr : copied(numbers, count);
  };
  there.q_lengths = list(host.q_lengths, host.items), there.kv_lengths = list(host.kv_lengths, host.items);
  there.cu_q = list(host.cu_q, host.items + 1), there.cu_kv = list(host.cu_kv, host.items + 1);
  if (host.status == nullptr) return;
  memory_.push_back(device_.backend->memory->copy_in(device_, std::as_bytes(std::span(host.status, 1)), 0));
  there.status = static_cast<LengthsStatus*>(memory_.back().get());
}

const std::int32_t* DeviceArguments::copied(const std::int32_t* numbers, std::int64_t count) {
  const std::span list(numbers, static_cast<std::size_t>(count));
  memory_.push_back(device_.backend->memory->copy_in(device_, std::as_bytes(list), 0));
  return static_cast<const std::int32_t*>(memory_.back().get());
}

TensorView DeviceArguments::copied(const TensorView& host) {
  constexpr std::uintptr_t kAlignment = 64;
  TensorView view = host;
  const std::span<std::byte> bytes = bytes_of(host);
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(host.data) % kAlignment;
  memory_.push_back(device_.backend->memory->copy_in(device_, bytes, offset));
  view.data = memory_.back().get();
  return view;
}

void DeviceArguments::copy_back() const {
  if (device_.backend->memory == nullptr) return;
  device_.backend->memory->copy_out(device_, bytes_of(host_.out), there_.out.data);
  if (host_.lse) device_.backend->memory->copy_out(device_, bytes_of(*host_.lse), there_.lse->data);
  if (host_.device_lengths && host_.device_lengths->status != nullptr)
    device_.backend->memory->copy_out(device_, std::as_writable_bytes(std::span(host_.device_lengths->status, 1)),
                                      there_.device_lengths->status);
}

void run_host_tensors(const Attention& attention, const AttentionArguments& host, const Device& device) {
  const DeviceArguments arguments(host, device);
  attention.run(arguments.arguments());
  arguments.copy_back();
}

}  // namespace stof
