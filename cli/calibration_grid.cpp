// SPDX-License-Identifier: Apache-2.0
#include "cli/calibration_grid.h"

#include <algorithm>
#include <ctime>

#include "cli/attention_problem.h"
#include "src/attention/call.h"
#include "src/attention/live_share.h"
#include "src/attention/planned.h"
#include "src/backend/cpu/attention/cost.h"

namespace stof::cli {
namespace {

constexpr std::int64_t kHeads = 2;

std::vector<GridCase> cross(const std::vector<std::string>& masks, const std::vector<std::int64_t>& lengths,
                            const std::vector<std::int64_t>& head_dims) {
  std::vector<GridCase> cases;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const std::string& mask : masks)
      for (const std::int64_t length : lengths)
        for (const std::int64_t d : head_dims) cases.push_back({mask, length, length, d, dtype});
  return cases;
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The smallest of many runs: other programs may run beside this one, and nothing makes a run faster than it is.
template <class Run>
double smallest_us(const Run& run) {
  double best = 1e30, spent = 0;
  for (int i = 0; i < 40 && (i < 5 || spent < 0.06); ++i) {
    const double begin = cpu_seconds();
    run();
    const double took = cpu_seconds() - begin;
    best = std::min(best, took);
    spent += took;
  }
  return best * 1e6;
}

// The amounts of work that the cost model sees for this plan.
Json work_of(const AttentionPlan& plan, const AttentionProblem& problem) {
  if (plan.layout == LayoutKind::row) return cpu::terms_of(cpu::total_work(problem));
  for (const BlockStats& stats : problem.stats.blocks)
    if (stats.block_q == plan.format.block_q) return cpu::terms_of(cpu::total_work(problem, stats));
  return nullptr;
}

Json time_plan(const AttentionPlan& plan, const Choice& choice, const Mask& mask, const AttentionProblem& problem,
               const Device& device) {
  Choice forced = choice;
  forced.plan = plan;
  for (const AttentionKernel& kernel : device.backend->attention)
    if (kernel.name == plan.kernel) forced.kernel = &kernel;
  const Planned planned = replan(mask, problem.shape, device, forced);
  const AttentionProblemInputs inputs(problem.shape);
  const CheckedCall checked = check_call(inputs.arguments(), problem.shape, false);
  AttentionCall call = checked.call;
  call.items = checked.items;
  const bool blocks = plan.layout == LayoutKind::block;
  return {{"kernel", plan.kernel},
          {"block_q", blocks ? plan.format.block_q : 0},
          {"block_kv", blocks ? plan.format.block_kv : 0},
          {"work", work_of(plan, problem)},
          {"us", smallest_us([&] { forced.kernel->run(plan, planned.arranged, call, device); })},
          {"predicted_us", plan.predicted_us},
          {"chosen", plan == choice.plan}};
}

}  // namespace

std::vector<GridCase> calibration_grid() {
  std::vector<GridCase> cases =
      cross({"all", "causal", "window(8)", "window(64)", "longformer(32,8)", "dilated(16,8)", "dilated(4,64)",
             "random_blocks(32,3,1)", "where((q * 7919 + k * 104729) % 31 == 0)"},
            {64, 256, 1024}, {32, 64, 128});
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const std::int64_t keys : {64, 1024, 8192}) cases.push_back({"causal", 1, keys, 64, dtype});
  return cases;
}

std::vector<GridCase> held_out_grid() {
  return cross({"all", "causal & window(100)", "window(20)", "bigbird(64,3,2,3,1)", "longformer(64,16)",
                "dilated(32,2)", "strided(24)", "global(10)", "documents([0,20,55,70])",
                "sink(4) | causal & window(30)", "where((q * 31 + k * 17) % 97 < 6)"},
               {96, 600, 1500}, {48, 64, 96});
}

Json time_grid_case(const GridCase& one, const Device& device) {
  const AttentionShape shape{.heads = kHeads,
                             .kv_heads = kHeads,
                             .queries = one.queries,
                             .keys = one.keys,
                             .head_dim = one.head_dim,
                             .dtype = one.dtype};
  const Mask mask = parse(one.mask);
  const BoundMask bound(mask, {.queries = one.queries, .keys = one.keys, .heads = kHeads});
  AttentionProblem problem{.shape = shape, .stats = measure(bound, device.backend->attention_block_sizes(shape, 1))};
  problem.partial_live = partial_live_share(bound);
  const Choice choice = choose(device.backend->attention, problem, device.caps);
  Json plans = Json::array();
  for (const AttentionPlan& plan : choice.considered) plans.push_back(time_plan(plan, choice, mask, problem, device));
  return {{"mask", one.mask},
          {"queries", one.queries},
          {"keys", one.keys},
          {"head_dim", one.head_dim},
          {"dtype", name_of(one.dtype)},
          {"density", problem.stats.density},
          {"partial_live", problem.partial_live},
          {"plans", std::move(plans)}};
}

}  // namespace stof::cli
