// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/memory_plan.h"

#include <algorithm>
#include <optional>
#include <span>

namespace stof {
namespace {

// The steps during which a value is needed: from the node that makes it to the last that reads it.
struct Life {
  std::int64_t first = -1, last = -1;
};

std::vector<Life> lives_of(const Graph& graph) {
  std::vector<Life> lives(graph.values.size());
  std::vector<ValueId> inputs;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto step = static_cast<std::int64_t>(n);
    for (const ValueId input : graph.nodes[n].inputs) lives[static_cast<std::size_t>(input)].last = step;
    Life& made = lives[static_cast<std::size_t>(graph.nodes[n].output)];
    made = {.first = step, .last = step};
    if (std::holds_alternative<op::Input>(graph.nodes[n].op)) inputs.push_back(graph.nodes[n].output);
  }
  // What lies there before a call lies there after it.
  for (const ValueId input : inputs)
    lives[static_cast<std::size_t>(input)] = {.first = 0, .last = std::ssize(graph.nodes)};
  lives[static_cast<std::size_t>(graph.result)].last = static_cast<std::int64_t>(graph.nodes.size());
  return lives;
}

// Inputs that the backend may overwrite with the output (src/backend/operations.h).
std::vector<ValueId> overwritable(const Node& node) {
  const bool by_rows = std::holds_alternative<op::LayerNorm>(node.op) || std::holds_alternative<op::RmsNorm>(node.op) ||
                       std::holds_alternative<op::AddLayerNorm>(node.op) ||
                       std::holds_alternative<op::RmsNormAdd>(node.op) || std::holds_alternative<op::Add>(node.op) ||
                       std::holds_alternative<op::AddBias>(node.op) || std::holds_alternative<op::Activate>(node.op) ||
                       std::holds_alternative<op::Rotate>(node.op);
  if (by_rows) return node.inputs;
  // The residual, unless it is x, too, or is normalised by moments that lie where those of the output would.
  const auto* linear = std::get_if<op::Linear>(&node.op);
  const bool adds = linear != nullptr && node.inputs.size() == 2 && node.inputs[0] != node.inputs[1];
  return adds && !linear->residual_norm ? std::vector{node.inputs[1]} : std::vector<ValueId>{};
}

// The input in whose place the output lies: as large, and read by nothing later. So what was written last is written
// again while a cache still holds it. Of two, which both are gone then, the one made first: it lies where the arena is
// dense.
std::optional<ValueId> overwritten(const Graph& graph, const Node& node, const std::vector<Life>& lives,
                                   std::int64_t step) {
  std::optional<ValueId> found;
  for (const ValueId input : overwritable(node)) {
    const Life& life = lives[static_cast<std::size_t>(input)];
    if (life.last == step && graph.value(input).arena_columns() == graph.value(node.output).arena_columns() &&
        (!found || life.first < lives[static_cast<std::size_t>(*found)].first))
      found = input;
  }
  return found;
}

struct Placed {
  std::int64_t begin, end, last;
};

// First fit among what is alive at a step.
std::int64_t place(std::vector<Placed>& alive, const Life& life, std::int64_t size) {
  std::erase_if(alive, [&](const Placed& placed) { return placed.last < life.first; });
  std::int64_t begin = 0;
  auto before = alive.begin();
  for (; before != alive.end() && before->begin - begin < size; ++before) begin = std::max(begin, before->end);
  alive.insert(before, {.begin = begin, .end = begin + size, .last = life.last});
  return begin;
}

// Of a range of nodes, before whose first some values are there.
ArenaPlan plan_nodes(const Graph& graph, Life nodes, const std::vector<Life>& lives, std::span<const ValueId> there) {
  ArenaPlan plan{.offset = std::vector<std::int64_t>(graph.values.size(), 0)};
  std::vector<Placed> alive;  // ascending by begin
  const auto add = [&](ValueId value, const Life& life) {
    const std::int64_t size = graph.value(value).arena_columns(), begin = place(alive, life, size);
    plan.offset[static_cast<std::size_t>(value)] = begin;
    plan.columns = std::max(plan.columns, begin + size);
  };
  for (const ValueId value : there) add(value, {nodes.first, lives[static_cast<std::size_t>(value)].last});
  for (std::int64_t n = nodes.first; n < nodes.last; ++n) {
    const Node& node = graph.nodes[static_cast<std::size_t>(n)];
    const Life& life = lives[static_cast<std::size_t>(node.output)];
    const std::optional<ValueId> input = overwritten(graph, node, lives, life.first);
    if (!input) {
      add(node.output, life);
      continue;
    }
    const std::int64_t begin = plan.offset[static_cast<std::size_t>(*input)];
    plan.offset[static_cast<std::size_t>(node.output)] = begin;
    std::find_if(alive.begin(), alive.end(), [&](const Placed& placed) {
      return placed.begin == begin && placed.last >= life.first;
    })->last = life.last;
  }
  return plan;
}

// Reads other rows than its own, or what there is one of for each row of the call: tokens, positions, what lies there
// before it.
bool needs_all_rows(const Node& node) {
  const auto* linear = std::get_if<op::Linear>(&node.op);
  return std::holds_alternative<op::Attend>(node.op) || std::holds_alternative<op::AttendPacked>(node.op) ||
         std::holds_alternative<op::Input>(node.op) || std::holds_alternative<op::Lookup>(node.op) ||
         std::holds_alternative<op::Embed>(node.op) || std::holds_alternative<op::Rotate>(node.op) ||
         (linear != nullptr && linear->turned);
}

}  // namespace

ArenaPlan plan_arena(const Graph& graph) {
  return plan_nodes(graph, {.first = 0, .last = std::ssize(graph.nodes)}, lives_of(graph), {});
}

SplitArena split_arena(const Graph& graph) {
  SplitArena split{.cut = graph.nodes.size(), .live = {}, .body = {}, .tail = {}};
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    if (needs_all_rows(graph.nodes[n])) split.cut = n + 1;
  const auto cut = static_cast<std::int64_t>(split.cut), end = std::ssize(graph.nodes);
  const std::vector<Life> lives = lives_of(graph);
  for (ValueId value = 0; value < std::ssize(graph.values); ++value)
    if (const Life& life = lives[static_cast<std::size_t>(value)];
        life.first >= 0 && life.first < cut && life.last >= cut)
      split.live.push_back(value);
  split.body = plan_nodes(graph, {.first = 0, .last = cut}, lives, {});
  split.tail = plan_nodes(graph, {.first = cut, .last = end}, lives, split.live);
  return split;
}

std::int64_t live_columns(const Graph& graph) {
  const std::vector<Life> lives = lives_of(graph);
  std::int64_t most = 0;
  for (std::int64_t step = 0; step < std::ssize(graph.nodes); ++step) {
    std::int64_t columns = 0;
    for (std::size_t v = 0; v < lives.size(); ++v)
      if (lives[v].first >= 0 && lives[v].first <= step && step <= lives[v].last)
        columns += graph.values[v].arena_columns();
    const Node& node = graph.nodes[static_cast<std::size_t>(step)];
    if (overwritten(graph, node, lives, step)) columns -= graph.value(node.output).arena_columns();
    most = std::max(most, columns);
  }
  return most;
}

}  // namespace stof
