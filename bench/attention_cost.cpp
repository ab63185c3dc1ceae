// SPDX-License-Identifier: Apache-2.0
// What CPU attention kernels cost: every candidate of every problem of a set, timed on one core in CPU time, with the
// amounts of work that the cost model sees, as JSON. `calibration` is fitted by bench/fit_attention_cost.py; `check`
// holds other masks and shapes, on which the same script reports the regret of the choice.
//   bench_attention_cost calibration > bench/results/cpu-attention-cost.json
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "src/attention/live_share.h"
#include "src/attention/planned.h"
#include "src/backend/cpu/attention/cost.h"
#include "src/layout/pack.h"
#include "src/tensor/convert.h"

namespace stof {
namespace {

struct Case {
  std::string mask;
  std::int64_t queries, keys, head_dim;
  DType dtype;
};

std::vector<Case> cross(const std::vector<std::string>& masks, const std::vector<std::int64_t>& lengths,
                        const std::vector<std::int64_t>& head_dims) {
  std::vector<Case> cases;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const std::string& mask : masks)
      for (const std::int64_t length : lengths)
        for (const std::int64_t d : head_dims) cases.push_back({mask, length, length, d, dtype});
  return cases;
}

std::vector<Case> cases_of(const std::string& set) {
  if (set == "calibration") {
    std::vector<Case> cases =
        cross({"all", "causal", "window(8)", "window(64)", "longformer(32,8)", "dilated(16,8)", "dilated(4,64)",
               "random_blocks(32,3,1)", "where((q * 7919 + k * 104729) % 31 == 0)"},
              {64, 256, 1024}, {32, 64, 128});
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
      for (const std::int64_t keys : {64, 1024, 8192}) cases.push_back({"causal", 1, keys, 64, dtype});
    return cases;
  }
  return cross({"all", "causal & window(100)", "window(20)", "bigbird(64,3,2,3,1)", "longformer(64,16)",
                "dilated(32,2)", "strided(24)", "global(10)", "documents([0,20,55,70])",
                "sink(4) | causal & window(30)", "where((q * 31 + k * 17) % 97 < 6)"},
               {96, 600, 1500}, {48, 64, 96});
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
  for (int i = 0; i < 40 && (i < 5 || spent < 0.15); ++i) {
    const double begin = cpu_seconds();
    run();
    const double took = cpu_seconds() - begin;
    best = std::min(best, took);
    spent += took;
  }
  return best * 1e6;
}

Tensor random_tensor(const Shape& shape, DType dtype, unsigned seed) {
  Tensor tensor(DType::f32, shape);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::generate_n(tensor.as<float>(), tensor.size(), [&] { return normal(random); });
  return converted(tensor.view(), dtype);
}

struct Inputs {
  Tensor q, k, v, out;
};

Inputs random_inputs(const AttentionShape& shape) {
  const Shape rows{1, shape.heads, shape.queries, shape.head_dim}, keys{1, shape.heads, shape.keys, shape.head_dim};
  return {random_tensor(rows, shape.dtype, 1), random_tensor(keys, shape.dtype, 2), random_tensor(keys, shape.dtype, 3),
          Tensor(shape.dtype, rows)};
}

AttentionCall call_of(const AttentionShape& shape, const Inputs& inputs, const AttentionItem& item) {
  AttentionCall call;
  call.q = inputs.q.data();
  call.k = inputs.k.data();
  call.v = inputs.v.data();
  call.out = inputs.out.data();
  call.q_strides = call.out_strides = {shape.queries * shape.head_dim, shape.head_dim};
  call.k_strides = call.v_strides = {shape.keys * shape.head_dim, shape.head_dim};
  call.heads = call.kv_heads = shape.heads;
  call.head_dim = shape.head_dim;
  call.dtype = shape.dtype;
  call.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_dim)));
  call.items = {&item, 1};
  return call;
}

// The amounts of work that the cost model sees for this plan.
nlohmann::json work_of(const AttentionPlan& plan, const AttentionProblem& problem) {
  if (plan.layout == LayoutKind::row) return cpu::terms_of(cpu::total_work(problem));
  for (const BlockStats& stats : problem.stats.blocks)
    if (stats.block_q == plan.format.block_q) return cpu::terms_of(cpu::total_work(problem, stats));
  return nullptr;
}

nlohmann::json time_case(const Case& one, const Device& device) {
  constexpr std::int64_t kHeads = 2;
  const AttentionShape shape{.heads = kHeads,
                             .kv_heads = kHeads,
                             .queries = one.queries,
                             .keys = one.keys,
                             .head_dim = one.head_dim,
                             .dtype = one.dtype};
  const Mask mask = parse(one.mask);
  const BoundMask bound(mask, {.queries = one.queries, .keys = one.keys, .heads = kHeads});
  AttentionProblem problem{.shape = shape, .stats = measure(bound, device.backend->attention_block_sizes)};
  problem.partial_live = partial_live_share(bound);
  const Choice choice = choose(device.backend->attention, problem, device.caps);

  const Inputs inputs = random_inputs(shape);
  const AttentionItem item{.queries = one.queries, .keys = one.keys};
  const AttentionCall call = call_of(shape, inputs, item);
  nlohmann::json plans = nlohmann::json::array();
  for (const AttentionPlan& plan : choice.considered) {
    Choice forced = choice;
    forced.plan = plan;
    for (const AttentionKernel& kernel : device.backend->attention)
      if (kernel.name == plan.kernel) forced.kernel = &kernel;
    const Planned planned = replan(mask, shape, device, forced);
    const bool blocks = plan.layout == LayoutKind::block;
    plans.push_back({{"kernel", plan.kernel},
                     {"block_q", blocks ? plan.format.block_q : 0},
                     {"block_kv", blocks ? plan.format.block_kv : 0},
                     {"work", work_of(plan, problem)},
                     {"us", smallest_us([&] { forced.kernel->run(plan, planned.arranged, call, device); })},
                     {"predicted_us", plan.predicted_us},
                     {"chosen", plan == choice.plan}});
  }
  return {{"mask", one.mask},
          {"queries", one.queries},
          {"keys", one.keys},
          {"head_dim", one.head_dim},
          {"dtype", name_of(one.dtype)},
          {"density", problem.stats.density},
          {"partial_live", problem.partial_live},
          {"plans", std::move(plans)}};
}

}  // namespace
}  // namespace stof

int main(int argc, char** argv) {
  const std::string set = argc > 1 ? argv[1] : "calibration";
  stof::Device device = stof::open_device("cpu");
  device.caps.cores = 1;
  fmt::print("{{\"set\": \"{}\", \"device\": \"{}\", \"rows\": [", set, device.caps.name);
  const char* separator = "\n";  // a row a line
  for (const stof::Case& one : stof::cases_of(set)) {
    fmt::print("{}{}", separator, stof::time_case(one, device).dump());
    separator = ",\n";
  }
  fmt::print("\n]}}\n");
}
