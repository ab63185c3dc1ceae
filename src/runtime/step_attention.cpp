// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/step_attention.h"

#include <algorithm>
#include <string>

#include "src/attention/planned.h"
#include "src/backend/contract.h"
#include "src/mask/bind.h"

namespace stof {
namespace {

// Keys of a text, beyond which nobody looks at the mask's rows one by one.
constexpr std::int64_t kMostLooked = 1 << 15;

}  // namespace

StepChoice choose_step(const Mask& mask, const AttentionShape& shape, const Device& device) {
  const Backend& backend = *device.backend;
  const Choice chosen = choose_attention(mask, shape, device, "auto");
  StepChoice step{.predicted_us = chosen.plan.predicted_us};
  const auto reads = std::ranges::find(backend.attention, chosen.plan.kernel, &AttentionKernel::name);
  if (backend.open_stream == nullptr || reads->reads_device_lengths) return step;
  for (const AttentionKernel& kernel : backend.attention) {
    if (!kernel.reads_device_lengths || kernel.refuses({.shape = shape}, device.caps)) continue;
    const double us = choose_attention(mask, shape, device, kernel.name).plan.predicted_us;
    if (us < chosen.plan.predicted_us + backend.launch_us)
      return {.kernel = std::string(kernel.name), .predicted_us = us};
  }
  return step;
}

Attention plan_step(const Mask& mask, const AttentionShape& shape, const Device& device) {
  if (device.backend->open_stream == nullptr) return Attention(mask, shape, device);
  return Attention(mask, shape, device, {.kernel = choose_step(mask, shape, device).kernel});
}

std::optional<TokenAttentionShape> one_launch_of_step(const Mask& mask, const AttentionShape& shape,
                                                      const Device& device) {
  const TokenAttention* const joins = device.backend->token_attention;
  if (joins == nullptr || changes_scores(shape) || shape.keys > kMostLooked) return std::nullopt;
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
  return joins->refuses(joined, device.caps) ? std::nullopt : std::optional(joined);
}

std::optional<TokenAttentionShape> join_step(const Mask& mask, const AttentionShape& shape, const Device& device) {
  const std::optional<TokenAttentionShape> joined = one_launch_of_step(mask, shape, device);
  if (!joined) return std::nullopt;
  // Norms, turns and copies of a row are a launch of their own where they stand apart.
  const double apart_us = choose_step(mask, shape, device).predicted_us + device.backend->launch_us;
  return device.backend->token_attention->predicted_us(*joined, device.caps) > apart_us ? std::nullopt : joined;
}

}  // namespace stof
