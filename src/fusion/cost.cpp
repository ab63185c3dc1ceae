// SPDX-License-Identifier: Apache-2.0
#include "src/fusion/cost.h"

#include "kernels/shared/rows.h"
#include "src/attention/planned.h"
#include "src/backend/contract.h"
#include "src/base/error.h"
#include "src/fusion/work.h"

namespace stof {
namespace {

// Of row kernels. On an H200: layer norms of 1024, 4096 and 16384 rows of 768 in f16, each by itself in a graph
// (bench/results/a154e4f-h200-nodes.txt): what the kernel in front has written is read from the L2 where that holds it.
// On a CPU: memory of a core, which shapes of a call scarcely leave.
struct Rates {
  double launch_us, bytes_per_us, near_bytes_per_us, flops_per_us;
  double near_bytes = 40e6;  // as much as the L2 keeps, as in src/backend/cuda/matmul/cost.cpp
};
Rates rates_of(const Device& device) {
  if (device.caps.arch > 0)
    return {.launch_us = 2.75, .bytes_per_us = 2.7e6, .near_bytes_per_us = 4.7e6, .flops_per_us = 5e8};
  const double of_core = 1e4 * device.caps.cores;
  return {.launch_us = 1, .bytes_per_us = of_core, .near_bytes_per_us = of_core, .flops_per_us = 10 * of_core};
}

// Of norms that stay nodes, in 16 bits, reckoned by hand, which no program repeats: what whole models take with them
// and without in bench/results/h200-fusion-ablations.json, less what matmuls are predicted to gain by leaving their
// norms to them. By itself a norm of 128 rows takes 1.1 us (bench/results/h200-norms.json); in front of a matmul it
// also takes from that the time in which weights are loaded. Heads that are turned take as long for as many bytes
// (bench/results/h200-row-warps.txt, in f16).
Rates warp_rates_of(const Device& device) {
  return {
      .launch_us = 3, .bytes_per_us = 4.2e6, .near_bytes_per_us = 8e6, .flops_per_us = rates_of(device).flops_per_us};
}

// Norms by warps that stay, in 16 bits; heads by as many lanes as have a piece.
bool is_by_warps(const Work& work, const CostContext& context) {
  if (context.device->caps.arch == 0) return false;
  const std::int64_t columns = work.graph.value(work.node.output).columns;
  if (const auto* rotate = std::get_if<op::Rotate>(&work.node.op))
    return !rotate->norm && cuda::TurnedHeadsGrid::takes(packed_head_dim(*rotate, columns) / 2,
                                                         static_cast<int>(16 / size_of(context.dtype)));
  const bool rms = std::holds_alternative<op::RmsNorm>(work.node.op);
  return context.dtype != DType::f32 && (rms || std::holds_alternative<op::LayerNorm>(work.node.op)) &&
         cuda::RowNormGrid::takes(context.rows, columns, rms);
}

double pass_us(const Rates& rates, double bytes) {
  return rates.launch_us + bytes / (bytes <= rates.near_bytes ? rates.near_bytes_per_us : rates.bytes_per_us);
}

double row_bytes(const Work& work, const CostContext& context) {
  double columns = static_cast<double>(work.graph.value(work.node.output).columns);
  for (const ValueId input : work.node.inputs) columns += static_cast<double>(work.graph.value(input).columns);
  // Rows of a table: those of tokens; those of positions and segments are few and stay near.
  if (std::holds_alternative<op::Embed>(work.node.op) || std::holds_alternative<op::Lookup>(work.node.op)) columns *= 2;
  // Of q, k and v only q and k are read and written: v stays where it is.
  if (const auto* rotate = std::get_if<op::Rotate>(&work.node.op))
    columns *= static_cast<double>(rotate->heads + rotate->kv_heads) / static_cast<double>(packed_heads(*rotate));
  return columns * static_cast<double>(context.rows) * static_cast<double>(size_of(context.dtype));
}

double matmul_flops(const Work& work, const CostContext& context) {
  const auto* linear = std::get_if<op::Linear>(&work.node.op);
  const double halves = linear != nullptr && linear->gate ? 2 : 1;  // of the product, for each column that is left
  return 2.0 * halves * static_cast<double>(context.rows) *
         static_cast<double>(work.graph.value(work.node.inputs[0]).columns) *
         static_cast<double>(work.graph.value(work.node.output).columns);
}

double attention_us(const op::AttendPacked& attend, const Work& work, const CostContext& context) {
  const AttentionShape shape{.batch = context.texts,
                             .heads = attend.heads,
                             .kv_heads = attend.kv_heads,
                             .queries = context.longest,
                             .keys = context.longest,
                             .head_dim = work.graph.value(work.node.output).columns / attend.heads,
                             .dtype = context.dtype,
                             .capped = attend.scores.softcap.has_value(),
                             .biased = attend.scores.biased};
  try {
    // A sum is for items of one length, which a session's texts seldom are.
    return choose_single(attend.mask, shape, *context.device, "auto").plan.predicted_us;
  } catch (const Error& error) {
    // Arrays over the positions of longer texts: the time is not known, and the same in every scheme.
    if (error.kind() != ErrorKind::invalid_argument) throw;
    return 0;
  }
}

bool is_matmul(const Node& node) {
  return std::holds_alternative<op::Linear>(node.op) || std::holds_alternative<op::MatMul>(node.op);
}

}  // namespace

std::vector<Candidate> candidates_of(const Work& work, const CostContext& context) {
  const Rates rates = is_by_warps(work, context) ? warp_rates_of(*context.device) : rates_of(*context.device);
  const double rows_us = pass_us(rates, row_bytes(work, context));
  if (const auto* attend = std::get_if<op::Attend>(&work.node.op))
    return {
        {.setting = {},
         .predicted_us = attention_us({attend->heads, attend->heads, attend->mask, attend->scores}, work, context)}};
  if (const auto* attend = std::get_if<op::AttendPacked>(&work.node.op))
    return {{.setting = {}, .predicted_us = attention_us(*attend, work, context)}};
  if (!is_matmul(work.node)) return {{.setting = {}, .predicted_us = rows_us}};
  const MatmulOperations& matmul = context.device->backend->matmul;
  if (matmul.settings == nullptr)
    return {{.setting = {}, .predicted_us = rows_us + matmul_flops(work, context) / rates.flops_per_us}};
  std::vector<Candidate> candidates;
  const LinearSpec spec = linear_spec(work.node, context.dtype, context.device);
  const auto why_not = context.device->backend->why_not_compiled;
  const bool may_compile = why_not == nullptr || (!context.built_in_only && why_not(*context.device).empty());
  for (const MatmulChoice& choice : matmul.settings(spec, context.rows))
    if (may_compile || matmul.is_built_in(spec, context.rows, choice.setting))
      candidates.push_back({text_of(choice.setting), choice.predicted_us});
  return candidates;
}

}  // namespace stof
