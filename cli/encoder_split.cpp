// SPDX-License-Identifier: Apache-2.0
#include "cli/encoder_split.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <map>

#include "src/backend/contract.h"
#include "src/base/median.h"
#include "src/base/threads.h"
#include "src/fusion/fuse.h"
#include "src/fusion/work.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "src/mask/stats.h"
#include "src/runtime/program.h"

namespace stof::cli {
namespace {

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// A graph with its program, and what its calls have taken so far.
class TimedSteps {
 public:
  TimedSteps(Graph graph, const ProgramOptions& options, const RowBatch& rows)
      : graph_(std::move(graph)),
        program_(graph_, options),
        rows_(rows),
        arena_(DType::boolean, {program_.arena_bytes(rows.rows)}),
        us_(graph_.nodes.size()) {
    std::memset(arena_.data(), 0, arena_.bytes());
    program_.run(rows_, arena_.as<std::byte>());
  }

  void call() {
    const Frame frame{.rows = rows_.rows,
                      .row_capacity = row_capacity(rows_.rows),
                      .arena = arena_.as<std::byte>(),
                      .indices = {rows_.tokens, rows_.positions, rows_.segments},
                      .batch = &rows_,
                      .attention = &program_.plans(1, program_.options().longest)};
    const double ran = processor_seconds(), begin = seconds();
    double before = begin;
    for (std::size_t step = 0; step < program_.steps(); ++step) {
      program_.run_steps(frame, step, step + 1);
      const double now = seconds();
      us_[step].push_back(1e6 * (now - before));
      before = now;
    }
    whole_us_.push_back(1e6 * (seconds() - begin));
    busy_.push_back(1e6 * (processor_seconds() - ran) / whole_us_.back() / omp_get_max_threads());
  }

  const Graph& graph() const { return graph_; }
  std::size_t calls() const { return whole_us_.size(); }
  double us(std::size_t step) const { return median_of(us_[step]); }
  double whole_us() const { return median_of(whole_us_); }
  double busy() const { return median_of(busy_); }

 private:
  Graph graph_;
  Program program_;
  const RowBatch& rows_;
  Tensor arena_;
  std::vector<std::vector<double>> us_;  // [steps][calls]
  std::vector<double> whole_us_, busy_;
};

Graph without_activations(Graph graph) {
  for (Node& node : graph.nodes)
    if (auto* linear = std::get_if<op::Linear>(&node.op)) linear->activation = Activation::none;
  return graph;
}

double gflop_of(const Node& node, const Graph& graph, const RowBatch& rows) {
  if (const auto* attend = std::get_if<op::AttendPacked>(&node.op)) {
    constexpr std::array kTile = {BlockSize{64, 64}};
    double pairs = 0;
    for (const std::int32_t length : rows.lengths)
      pairs += measure(BoundMask(attend->mask, {.queries = length, .keys = length, .heads = attend->heads}), kTile)
                   .allowed_pairs;
    return 4e-9 * pairs * static_cast<double>(graph.value(node.output).columns / attend->heads);
  }
  if (!std::holds_alternative<op::Linear>(node.op)) return 0;
  double weights = 0;
  for (const TensorView& part : linear_spec(node, DType::f32, nullptr).weight)
    weights += static_cast<double>(element_count(part.shape));
  return 2e-9 * static_cast<double>(rows.rows) * weights;
}

bool is_activated(const Node& node) {
  const auto* linear = std::get_if<op::Linear>(&node.op);
  return linear != nullptr && linear->activation != Activation::none;
}

Json json_of(const TimedSteps& steps, const TimedSteps& plain, const RowBatch& rows) {
  struct Sum {
    double us = 0, gflop = 0, activation_us = 0;
  };
  std::vector<std::string> order;
  std::map<std::string, Sum> sums;
  const Graph& graph = steps.graph();
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const std::string work = work_text(graph, graph.nodes[i]);
    const auto [sum, added] = sums.try_emplace(work);
    if (added) order.push_back(work);
    sum->second.us += steps.us(i);
    sum->second.gflop += gflop_of(graph.nodes[i], graph, rows);
    if (is_activated(graph.nodes[i])) sum->second.activation_us += steps.us(i) - plain.us(i);
  }
  Json list = Json::array();
  for (const std::string& work : order) {
    const Sum& sum = sums.at(work);
    list.push_back({{"work", work}, {"us", sum.us}, {"gflop", sum.gflop}, {"activation_us", sum.activation_us}});
  }
  return {{"whole_us", steps.whole_us()}, {"busy", steps.busy()}, {"calls", steps.calls()}, {"steps", std::move(list)}};
}

}  // namespace

Json split_encoder(const Model& model, const SessionOptions& options, const TokenBatch& batch, const PeakMatmul& matmul,
                   double most_seconds) {
  constexpr std::size_t kLeast = 3, kMost = 40;
  constexpr double kMatmulSeconds = 0.04;
  const ModelConfig& config = model.config;
  const RowBatch rows = make_rows(
      batch,
      {.vocabulary = config.vocab_size, .longest = config.max_positions, .first_position = config.first_position},
      false);
  const ProgramOptions made{
      .device = open_device(options.device), .dtype = options.dtype, .longest = config.max_positions};
  const Graph graph = restrict_attention(fused_by_default(build_graph(model)), options.mask.value_or(all()));
  TimedSteps steps(graph, made, rows), plain(without_activations(graph), made, rows);
  std::vector<double> beside;
  const double begin = seconds();
  while (steps.calls() < kLeast || (steps.calls() < kMost && seconds() - begin < most_seconds)) {
    beside.push_back(matmul.gflops_now(kMatmulSeconds));
    steps.call();
    plain.call();
  }
  Json split = json_of(steps, plain, rows);
  split["matmul_gflops"] = median_of(std::move(beside));
  return split;
}

}  // namespace stof::cli
