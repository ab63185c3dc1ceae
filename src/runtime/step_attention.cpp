// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/step_attention.h"

#include <algorithm>
#include <string>

#include "src/backend/contract.h"

namespace stof {

Attention plan_step(const Mask& mask, const AttentionShape& shape, const Device& device) {
  const Backend& backend = *device.backend;
  Attention chosen(mask, shape, device);
  if (backend.open_stream == nullptr) return chosen;
  const auto chosen_kernel = std::ranges::find(backend.attention, chosen.plan().kernel, &AttentionKernel::name);
  if (chosen_kernel->reads_device_lengths) return chosen;
  for (const AttentionKernel& kernel : backend.attention) {
    if (!kernel.reads_device_lengths || kernel.refuses({.shape = shape}, device.caps)) continue;
    Attention reading(mask, shape, device, {.kernel = std::string(kernel.name)});
    if (reading.plan().predicted_us < chosen.plan().predicted_us + backend.launch_us) return reading;
  }
  return chosen;
}

}  // namespace stof
