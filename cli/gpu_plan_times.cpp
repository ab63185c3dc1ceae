// SPDX-License-Identifier: Apache-2.0
#include "cli/gpu_plan_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "cli/attention_problem.h"
#include "src/attention/call.h"
#include "src/attention/describe.h"
#include "src/attention/host_tensors.h"
#include "src/attention/planned.h"
#include "src/attention/residue_items.h"
#include "src/attention/score_bias.h"
#include "src/backend/cuda/driver/device.h"
#include "src/backend/cuda/driver/device_memory.h"
#include "src/backend/cuda/driver/stream.h"
#include "src/base/error.h"
#include "src/base/median.h"
#include "src/tensor/half.h"

namespace stof::cli {
namespace {

constexpr int kReplays = 7;
constexpr double kGraphUs = 1500;  // launches of a graph take about this long together, 4 to 20 of them
constexpr double kLate = 3;        // a first replay that takes so many times the best plan's is the only one

float element(const Tensor& tensor, std::int64_t i) {
  const std::uint16_t bits = tensor.as<std::uint16_t>()[i];
  return tensor.dtype() == DType::f16 ? float_of_f16(bits) : float_of_bf16(bits);
}

// Relative to `b`, by Frobenius norm. NaN where `a` has one.
double difference(const Tensor& a, const Tensor& b) {
  const std::int64_t count = a.size();
  double squares = 0, norm = 0;
#pragma omp parallel for reduction(+ : squares, norm)
  for (std::int64_t i = 0; i < count; ++i) {
    const double x = element(a, i), y = element(b, i);
    squares += (x - y) * (x - y);
    norm += y * y;
  }
  return norm > 0 ? std::sqrt(squares / norm) : std::sqrt(squares);
}

// A problem's tensors on the GPU, and its call.
class Bench {
 public:
  Bench(const GpuCase& one, const Device& device)
      : device_(device),
        gpu_(cuda::gpu_of(device)),
        mask_(parse(one.mask)),
        bound_(BoundMask::once_for_like_items(mask_, {.queries = one.shape.queries,
                                                      .keys = one.shape.keys,
                                                      .batch = one.shape.batch,
                                                      .heads = one.shape.heads})),
        inputs_(inputs_of(one)),
        first_(one.shape.dtype, inputs_.out.shape()),
        there_(inputs_.arguments(), device),
        out_(gpu_, inputs_.out.bytes()),
        stream_(gpu_) {}

  const BoundMask& bound() const { return bound_; }
  const AttentionError& error() const { return error_; }

  Choice choose() const { return choose_single(mask_, inputs_.shape, device_, "auto"); }

  double time(const Choice& choice, const AttentionPlan& plan) {
    Choice forced = choice;
    forced.plan = plan;
    for (const AttentionKernel& kernel : device_.backend->attention)
      if (kernel.name == plan.kernel) forced.kernel = &kernel;
    const Planned planned = replan(mask_, inputs_.shape, device_, forced);
    const auto launch = [&] { run(forced, planned); };
    out_.fill(0xFF);
    launch();
    stream_.synchronize();
    check();
    return replayed(launch);
  }

 private:
  static AttentionProblemInputs inputs_of(const GpuCase& one) {
    AttentionProblemInputs inputs(one.shape);
    inputs.softcap = one.softcap;
    if (one.bias_reach >= 0) inputs.add_bias(one.bias_reach);
    return inputs;
  }

  void run(const Choice& forced, const Planned& planned) const {
    AttentionArguments arguments = there_.arguments();
    arguments.out = view_of(out_.as<void>(), inputs_.out.dtype(), inputs_.out.shape());
    const CheckedCall checked = check_call(arguments, inputs_.shape, depends_on_batch(mask_));
    AttentionCall call = checked.call;
    call.bias = score_bias(arguments, inputs_.shape, device_);
    std::pmr::vector<AttentionItem> items = checked.items;
    if (bound_.extent().batch == 1)
      for (AttentionItem& item : items) item.index = 0;
    call.items = items;
    call.stream = stream_.handle();
    if (forced.plan.residues == 1) return forced.kernel->run(forced.plan, planned.arranged, call, device_);
    for_each_class(call, forced.plan.residues, [&](const AttentionCall& part) {
      forced.kernel->run(forced.plan, planned.arranged, part, device_);
    });
  }

  // The first output against the definition, the others against the first.
  void check() {
    cuda::copy_out(gpu_, {static_cast<std::byte*>(inputs_.out.data()), inputs_.out.bytes()}, out_.address());
    if (!has_first_) {
      error_ = check_attention(bound_, inputs_);
      std::memcpy(first_.data(), inputs_.out.data(), first_.bytes());
      has_first_ = true;
    }
    const double off = difference(inputs_.out, first_);
    const double bound = inputs_.out.dtype() == DType::f16 ? 2e-3 : 1e-2;
    if (!(off < bound)) fail(ErrorKind::internal, "bug in STOF: two plans of one problem differ by {:.2e}", off);
  }

  template <class Launch>
  double replayed(const Launch& launch) {
    const cuda::Event begin(gpu_), end(gpu_);
    const auto timed = [&](const cuda::CapturedGraph& graph, int launches) {
      begin.record(stream_.handle());
      graph.launch(stream_.handle());
      end.record(stream_.handle());
      return static_cast<double>(end.microseconds_since(begin)) / launches;
    };
    const auto graph_of = [&](int launches) {
      return cuda::CapturedGraph(gpu_, stream_.handle(), [&] {
        for (int i = 0; i < launches; ++i) launch();
      });
    };
    const cuda::CapturedGraph probe = graph_of(2);
    timed(probe, 2);
    const double first = timed(probe, 2);
    if (first > kLate * best_) return first;
    const int launches = std::clamp(static_cast<int>(kGraphUs / first), 4, 20);
    const cuda::CapturedGraph graph = graph_of(launches);
    timed(graph, launches);
    std::vector<double> times;
    for (int i = 0; i < kReplays; ++i) times.push_back(timed(graph, launches));
    const double us = median_of(std::move(times));
    best_ = std::min(best_, us);
    return us;
  }

  const Device& device_;
  const cuda::Gpu& gpu_;
  Mask mask_;
  BoundMask bound_;
  AttentionProblemInputs inputs_;
  Tensor first_;  // the output of the first plan
  bool has_first_ = false;
  DeviceArguments there_;
  cuda::DeviceMemory out_;
  cuda::Stream stream_;
  AttentionError error_;
  double best_ = 1e30;
};

}  // namespace

Json time_plans(const GpuCase& one, const Device& device) {
  Bench bench(one, device);
  const Choice choice = bench.choose();
  std::vector<const AttentionPlan*> order;  // the chosen one first: others stop early against it
  for (const AttentionPlan& plan : choice.considered) order.push_back(&plan);
  std::stable_sort(order.begin(), order.end(),
                   [](const AttentionPlan* a, const AttentionPlan* b) { return a->predicted_us < b->predicted_us; });
  Json plans = Json::array();
  for (const AttentionPlan* plan : order) {
    Json row{{"kernel", plan->kernel},
             {"instance", plan->instance},
             {"block_q", plan->format.block_q},
             {"key_step", plan->format.key_step},
             {"row_origin", name_of(plan->format.row_origin)},
             {"splits", plan->splits},
             {"residues", plan->residues},
             {"predicted_us", plan->predicted_us},
             {"chosen", *plan == choice.plan}};
    if (plan->predicted_us <= kHopeless * choice.plan.predicted_us) row["us"] = bench.time(choice, *plan);
    plans.push_back(std::move(row));
  }
  const AttentionShape& s = one.shape;
  return {{"id", one.id()},
          {"mask", one.mask},
          {"shape", {s.batch, s.heads, s.kv_heads, s.queries, s.keys, s.head_dim}},
          {"dtype", name_of(s.dtype)},
          {"softcap", one.softcap},
          {"bias_reach", one.bias_reach},
          {"frobenius", bench.error().frobenius},
          {"worst_row", bench.error().worst_row},
          {"plans", std::move(plans)}};
}

std::string gpu_plan_times_protocol() {
  return fmt::format(
      "us of the device per launch, median of {} replays of a graph of 4 to 20 launches, hot; a plan that takes {} "
      "times "
      "as long as the best before it is replayed once; the first plan's output checked against the definition in "
      "double, "
      "the others' against the first's",
      kReplays, kLate);
}

}  // namespace stof::cli
