// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/node_times.h"

#include <fmt/format.h>

#include <map>
#include <numeric>

#include "src/base/error.h"
#include "src/base/median.h"
#include "src/fusion/work.h"

namespace stof {
namespace {

// Of one number of steps, over rounds.
double median_at(const std::vector<std::vector<double>>& rounds, std::size_t steps) {
  std::vector<double> values;
  for (const std::vector<double>& round : rounds) values.push_back(round[steps]);
  return median_of(std::move(values));
}

struct Sum {
  int count = 0;
  double alone_us = 0, inside_us = 0;
};

std::string line_of(const std::string& name, const Sum& sum) {
  return fmt::format("{:>4} {:>9.2f} {:>9.2f} {:>9.2f}  {}\n", sum.count, sum.alone_us, sum.inside_us,
                     sum.inside_us - sum.alone_us, name);
}

}  // namespace

std::vector<double> added_times(const std::vector<std::vector<double>>& rounds) {
  STOF_CHECK(!rounds.empty() && !rounds.front().empty());
  std::vector<double> added;
  for (std::size_t step = 0; step + 1 < rounds.front().size(); ++step) {
    std::vector<double> differences;
    for (const std::vector<double>& round : rounds) differences.push_back(round[step + 1] - round[step]);
    added.push_back(median_of(std::move(differences)));
  }
  const double sum = std::accumulate(added.begin(), added.end(), 0.0),
               whole = median_at(rounds, rounds.front().size() - 1) - median_at(rounds, 0);
  if (sum > 0 && whole > 0)
    for (double& us : added) us *= whole / sum;
  return added;
}

NodeTimes node_times(const Program& program, const Graph& graph, const EvenCall& call, const NodeTimeOptions& options) {
  STOF_CHECK(program.steps() == graph.nodes.size());
  TimedCall timed(program, call);
  const std::vector<std::vector<double>> rounds = timed.times_up_to_each_step(options.rounds);
  const std::vector<double> inside = added_times(rounds);
  NodeTimes times{.nodes = {}, .empty_us = median_at(rounds, 0), .whole_us = median_at(rounds, program.steps())};
  std::map<std::string, double> alone;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (std::holds_alternative<op::Input>(graph.nodes[i].op)) continue;
    const std::string work = work_text(graph, graph.nodes[i]);
    if (!alone.contains(work)) alone[work] = timed.time_step(i, options.seconds_alone).us;
    times.nodes.push_back({.work = work, .alone_us = alone[work], .inside_us = inside[i]});
  }
  return times;
}

std::string to_text(const NodeTimes& times) {
  std::string text = "node     alone    inside      more  us\n";
  std::vector<std::string> order;
  std::map<std::string, Sum> sums;
  Sum whole;
  int index = 0;
  for (const NodeTime& node : times.nodes) {
    text += line_of(node.work, {index++, node.alone_us, node.inside_us});
    if (!sums.contains(node.work)) order.push_back(node.work);
    for (Sum* sum : {&sums[node.work], &whole}) {
      ++sum->count;
      sum->alone_us += node.alone_us, sum->inside_us += node.inside_us;
    }
  }
  text += "times    alone    inside      more  us, sums\n";
  for (const std::string& work : order) text += line_of(work, sums[work]);
  text += line_of("all", whole);
  text += fmt::format("a call without nodes takes {:.2f} us, with all {:.2f}\n", times.empty_us, times.whole_us);
  return text;
}

}  // namespace stof
