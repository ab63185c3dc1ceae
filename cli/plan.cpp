// SPDX-License-Identifier: Apache-2.0
// stof plan: what would run for a mask and a shape, how long it should take, and why.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/float_dtype.h"
#include "cli/json_output.h"
#include "cli/number_option.h"
#include "cli/outputs.h"
#include "cli/problem_shape.h"
#include "cli/waiting.h"
#include "src/attention/call.h"
#include "src/attention/describe.h"
#include "src/attention/planned.h"
#include "src/backend/cpu/attention/cost_table.h"
#include "src/backend/cuda/attention/cost_table.h"

namespace stof::cli {
namespace {

struct PlanOptions {
  std::string mask, shape, dtype = "f32", device = "auto", kernel = "auto", json;
  std::optional<std::int64_t> kv_heads, seq_kv;  // as many as heads, as long as the queries
  bool softcap = false, biased = false;
  std::int64_t tree_queries = 0;
};

struct Outcome {
  AttentionShape shape;
  Device device;
  Planned planned;
  double plan_us = 0;
};

AttentionShape shape_of(const PlanOptions& options) {
  const auto [batch, heads, length, head_dim] = parse_shape(options.shape);
  AttentionShape shape{.batch = batch,
                       .heads = heads,
                       .kv_heads = options.kv_heads.value_or(heads),
                       .queries = length,
                       .keys = options.seq_kv.value_or(length),
                       .head_dim = head_dim};
  shape.dtype = parse_float_dtype(options.dtype);
  shape.capped = options.softcap;
  shape.tree_queries = options.tree_queries;
  shape.biased = options.biased;
  return shape;
}

// Where the costs come from that the prediction is made of.
std::string costs_of(const Device& device) {
  if (device.backend == &cpu_backend) return cpu::costs_in_use().source;
  return cuda::costs_for(device.caps.name).source;
}

Json json_of(const PlanOptions& options, const Outcome& outcome) {
  Json refusals = Json::array(), considered = Json::array();
  for (const Refused& refused : outcome.planned.choice.refusals)
    refusals.push_back({{"kernel", refused.kernel}, {"reason", refused.why}});
  for (const AttentionPlan& other : outcome.planned.choice.considered)
    considered.push_back({{"kernel", other.kernel},
                          {"instance", other.instance},
                          {"tiles", describe_tiles(other)},
                          {"splits", other.splits},
                          {"stacked_heads", other.stacked_heads},
                          {"residues", other.residues},
                          {"predicted_us", other.predicted_us},
                          {"rest", other.rest.empty() ? Json() : Json(other.rest.front().kernel)}});
  Json json{{"mask", options.mask}, {"device", outcome.device.caps.name}, {"plan_us", outcome.plan_us}};
  json.update(describe(outcome.planned.choice.plan));
  json["costs"] = costs_of(outcome.device);
  json["refusals"] = std::move(refusals);
  json["considered"] = std::move(considered);
  return json;
}

std::string layout_text(const AttentionPlan& plan) {
  const std::string by_class = plan.residues > 1 ? fmt::format(" of positions modulo {}", plan.residues) : "";
  if (plan.layout == LayoutKind::row) return "row" + by_class;
  const std::string stacked =
      plan.stacked_heads > 1 ? fmt::format(", {} heads stacked", plan.stacked_heads) : std::string();
  const std::string_view from = plan.format.row_origin == RowOrigin::first_row ? " from the first row on" : "";
  return fmt::format("block {}x{}{}{}{}", plan.format.block_q, plan.format.block_kv, from, stacked, by_class);
}

std::string named(const AttentionPlan& plan) {
  return plan.instance.empty() ? std::string(plan.kernel) : fmt::format("{} ({})", plan.kernel, plan.instance);
}

std::string summary(const AttentionPlan& plan) {
  const std::string text = fmt::format("{}, {}{}", named(plan), layout_text(plan),
                                       plan.splits > 1 ? fmt::format(", {} splits", plan.splits) : "");
  return plan.rest.empty() ? text : fmt::format("{}; the rest by {}", text, summary(plan.rest.front()));
}

void print_text(const PlanOptions& options, const Outcome& outcome) {
  const AttentionShape& s = outcome.shape;
  const AttentionPlan& plan = outcome.planned.choice.plan;
  const auto line = [](std::string_view label, std::string_view text) { fmt::print("{:<11}{}\n", label, text); };
  line("mask", options.mask);
  const std::string trees = s.tree_queries > 0 ? fmt::format(", draft trees of {}", s.tree_queries) : "";
  line("shape", fmt::format("batch {}, heads {} ({} for keys), queries {}, keys {}, head_dim {}, {}{}{}", s.batch,
                            s.heads, s.kv_heads, s.queries, s.keys, s.head_dim, stof::name_of(s.dtype),
                            s.capped ? ", capped scores" : "", trees + (s.biased ? ", biased scores" : "")));
  line("device", fmt::format("{}: {}, {} cores", outcome.device.backend->name, outcome.device.caps.name,
                             outcome.device.caps.cores));
  line("kernel", named(plan));
  line("layout", layout_text(plan));
  line("splits", std::to_string(plan.splits));
  line("predicted", fmt::format("{:.1f} us", plan.predicted_us));
  line("reason", plan.reason);
  for (const AttentionPlan& rest : plan.rest) {
    line("rest", fmt::format("{}: {:.1f} us", summary(rest), rest.predicted_us));
    line("", rest.reason);
  }
  line("costs", costs_of(outcome.device));
  line("planned in", fmt::format("{:.1f} us", outcome.plan_us));
  for (const AttentionPlan& other : outcome.planned.choice.considered)
    line("considered", fmt::format("{}: {:.1f} us", summary(other), other.predicted_us));
  for (const Refused& refused : outcome.planned.choice.refusals)
    line("refused", fmt::format("{}: {}", refused.kernel, refused.why));
}

void plan(const PlanOptions& options) {
  check_outputs({{"--json", options.json, true}}, files_of_mask("mask", options.mask));
  Outcome outcome{.shape = shape_of(options), .device = open_device(options.device), .planned = {}};
  if (outcome.shape.heads > 0) check_items(outcome.shape.batch, outcome.shape.heads);  // as every such call
  const Mask mask = parse(options.mask);
  const auto begin = std::chrono::steady_clock::now();
  {
    const Waiting waiting("planning");
    outcome.planned = plan_attention(mask, outcome.shape, outcome.device, options.kernel);
  }
  outcome.plan_us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  if (!options.json.empty()) write_json(json_of(options, outcome), options.json);
  if (options.json != "-") print_text(options, outcome);
}

}  // namespace

void add_plan(CLI::App& app) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand("plan", "Show which kernel, layout and tiles a mask and a shape get, and why");
  command->add_option("mask", options->mask, "the mask, as in 'causal & window(256)'")->required();
  command->add_option("--shape", options->shape, "B,H,S,D: items, query heads, length, head dimension")->required();
  add_number(command, "--kv-heads", options->kv_heads,
             "heads of keys and values, of which H is a multiple (default H)");
  add_number(command, "--seq-kv", options->seq_kv, "number of keys (default S)");
  command->add_flag("--softcap", options->softcap, "for calls that cap their scores");
  command->add_flag("--biased", options->biased, "for calls that bring a relative bias");
  add_number(command, "--tree-queries", options->tree_queries, "for calls that bring draft trees of up to T queries");
  command->add_option("--dtype", options->dtype, "f32, f16 or bf16")->capture_default_str();
  command
      ->add_option("--device", options->device,
                   "auto, cpu, cuda, cuda:N, or cuda:h200, cuda:h100, cuda:a100 without one")
      ->capture_default_str();
  command->add_option("--kernel", options->kernel, "auto, or one kernel by name")->capture_default_str();
  command->add_option("--json", options->json, "write the plan as JSON to this file, or - for stdout in place of text");
  command->callback([options] { plan(*options); });
}

}  // namespace stof::cli
