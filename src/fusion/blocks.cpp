// SPDX-License-Identifier: Apache-2.0
#include "src/fusion/blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "src/graph/print.h"

namespace stof {
namespace {

constexpr std::size_t kLeastPeriod = 4;  // nodes: fewer that repeat are no layer

// What must agree between two blocks of a kind: everything but names and the values of weights.
std::vector<std::string> signatures_of(const Graph& graph) {
  std::vector<std::size_t> makers(graph.values.size(), 0);
  std::vector<std::string> signatures;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    std::string text = fmt::format("{} {} {}", name_of(node.op), detail_of(node.op), graph.value(node.output).columns);
    for (const ValueId input : node.inputs) text += fmt::format(" {}", n - makers[static_cast<std::size_t>(input)]);
    for (const Weight& weight : node.weights)
      text += fmt::format(" {}{}", name_of(weight.tensor.dtype), to_string(weight.tensor.shape));
    signatures.push_back(std::move(text));
    makers[static_cast<std::size_t>(node.output)] = n;
  }
  return signatures;
}

struct Range {
  std::size_t begin, end;
};

struct Run {
  std::size_t begin, period, repeats;
  std::size_t covered() const { return period * repeats; }
};

// The repetition that covers most nodes of the range; of equal ones the shortest period.
std::optional<Run> longest_run(const std::vector<std::string>& signatures, Range range) {
  std::optional<Run> best;
  for (std::size_t period = kLeastPeriod; 2 * period <= range.end - range.begin; ++period) {
    std::size_t equal = 0;  // nodes in a row, up to n, that agree with those a period later
    for (std::size_t n = range.begin; n + period < range.end; ++n) {
      equal = signatures[n] == signatures[n + period] ? equal + 1 : 0;
      if (equal < period) continue;
      const std::size_t end = n + period + 1, repeats = equal / period + 1;
      const Run run{end - repeats * period, period, repeats};
      if (signatures[run.begin].starts_with("rope ")) continue;  // the matmul in front may end in it
      if (!best || run.covered() > best->covered() || (run.covered() == best->covered() && run.period == best->period))
        best = run;
    }
  }
  return best;
}

void cut(const std::vector<std::string>& signatures, Range range, std::vector<FusionBlock>& kinds) {
  if (range.begin == range.end) return;
  const std::optional<Run> run = longest_run(signatures, range);
  if (!run) {
    kinds.push_back({.name = {}, .size = range.end - range.begin, .starts = {range.begin}});
    return;
  }
  cut(signatures, {range.begin, run->begin}, kinds);
  FusionBlock layers{.name = {}, .size = run->period, .starts = {}};
  for (std::size_t i = 0; i < run->repeats; ++i) layers.starts.push_back(run->begin + i * run->period);
  kinds.push_back(std::move(layers));
  cut(signatures, {run->begin + run->covered(), range.end}, kinds);
}

// The name of a block's first value, up to the number of the layer where there are several.
std::string name_of_kind(const Graph& graph, const FusionBlock& kind) {
  const std::string& name = graph.value(graph.nodes[kind.starts.front()].output).name;
  if (kind.starts.size() == 1) return name.substr(0, name.find('.'));
  const auto digit = std::find_if(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  return std::string(name.begin(), digit) + "*";
}

}  // namespace

std::vector<FusionBlock> find_blocks(const Graph& graph) {
  const std::vector<std::string> signatures = signatures_of(graph);
  std::vector<FusionBlock> kinds;
  cut(signatures, {0, signatures.size()}, kinds);
  for (FusionBlock& kind : kinds) kind.name = name_of_kind(graph, kind);
  return kinds;
}

std::size_t layer_kind(const std::vector<FusionBlock>& kinds) {
  const auto nodes = [](const FusionBlock& kind) { return kind.size * kind.starts.size(); };
  const auto most = std::max_element(kinds.begin(), kinds.end(),
                                     [&](const FusionBlock& a, const FusionBlock& b) { return nodes(a) < nodes(b); });
  return static_cast<std::size_t>(most - kinds.begin());
}

}  // namespace stof
