// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/step_attention.h"

#include <algorithm>
#include <string>

#include "src/backend/contract.h"
#include "src/mask/bind.h"

namespace stof {
namespace {

// Keys of a text, beyond which nobody looks at the mask's rows one by one.
constexpr std::int64_t kMostLooked = 1 << 15;

}  // namespace

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

std::optional<TokenAttentionShape> join_step(const Mask& mask, const AttentionShape& shape, double apart_us,
                                             const Device& device) {
  const TokenAttention* const joins = device.backend->token_attention;
  if (joins == nullptr || shape.keys > kMostLooked) return std::nullopt;
  const BoundMask bound(mask, {.queries = shape.keys, .keys = shape.keys, .batch = 1, .heads = shape.heads});
  const std::optional<std::vector<RowSpan>> rows = row_spans(bound);
  const std::optional<SpanRule> rule = rows ? last_row_rule(*rows) : std::nullopt;
  if (!rule) return std::nullopt;
  const TokenAttentionShape joined{.texts = shape.batch,
                                   .heads = shape.heads,
                                   .kv_heads = shape.kv_heads,
                                   .head_dim = shape.head_dim,
                                   .keys = shape.keys,
                                   .allowed = *rule,
                                   .dtype = shape.dtype};
  // Norms, turns and copies of a row are a launch of their own where they stand apart.
  const double launch_us = device.backend->launch_us;
  if (joins->refuses(joined, device.caps) || joins->predicted_us(joined, device.caps) > apart_us + launch_us)
    return std::nullopt;
  return joined;
}

}  // namespace stof
