// SPDX-License-Identifier: Apache-2.0
// Attention on tensors of the host, wherever it runs.
#pragma once
#include "stof/attention.h"

namespace stof {

// A call's tensors on a device: copies of what the host has, misaligned as it is. So is its bias.
class DeviceArguments {
 public:
  // Tensors of the host must outlive this.
  DeviceArguments(const AttentionArguments& host, const Device& device);
  const AttentionArguments& arguments() const { return there_; }
  // out, lse and the status of lengths to the host. Waits for the device.
  void copy_back() const;

 private:
  TensorView copied(const TensorView& host);
  const std::int32_t* copied(const std::int32_t* numbers, std::int64_t count);
  void copy_lists();  // device_lengths

  AttentionArguments host_, there_;
  Device device_;
  std::vector<std::shared_ptr<void>> memory_;
  std::shared_ptr<const RelativeBias> bias_;
};

// On the CPU, a plain run.
void run_host_tensors(const Attention& attention, const AttentionArguments& host, const Device& device);

}  // namespace stof
