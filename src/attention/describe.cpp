// SPDX-License-Identifier: Apache-2.0
#include "src/attention/describe.h"

#include <nlohmann/json.hpp>

namespace stof {

std::string_view name_of(LayoutKind kind) { return kind == LayoutKind::block ? "block" : "row"; }

std::string_view name_of(RowOrigin origin) { return origin == RowOrigin::zero ? "zero" : "first_row"; }

nlohmann::ordered_json describe_tiles(const AttentionPlan& plan) {
  if (plan.layout == LayoutKind::row) return nullptr;
  const BlockFormat& format = plan.format;
  return {{"block_q", format.block_q},
          {"block_kv", format.block_kv},
          {"key_step", format.key_step},
          {"row_origin", name_of(format.row_origin)}};
}

nlohmann::ordered_json describe(const AttentionPlan& plan) {
  nlohmann::ordered_json rest = nullptr;
  if (!plan.rest.empty()) rest = describe(plan.rest.front());
  return {{"layout", name_of(plan.layout)}, {"kernel", plan.kernel},
          {"instance", plan.instance},      {"tiles", describe_tiles(plan)},
          {"splits", plan.splits},          {"stacked_heads", plan.stacked_heads},
          {"residues", plan.residues},      {"predicted_us", plan.predicted_us},
          {"reason", plan.reason},          {"rest", std::move(rest)}};
}

}  // namespace stof
