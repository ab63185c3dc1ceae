// SPDX-License-Identifier: Apache-2.0
// Arenas of calls whose result is wanted of some rows alone: where the others are dropped, what has to outlive that,
// and that nothing lies where something else is still needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "src/fusion/fuse.h"
#include "src/graph/build.h"
#include "src/graph/infer.h"
#include "src/graph/simplify.h"
#include "src/runtime/program.h"
#include "tests/fusion/norming_device.h"
#include "tests/runtime/small_bert.h"
#include "tests/runtime/small_modernbert.h"

namespace stof {
namespace {

Graph fused_on_a_gpu(const Model& model, const char* layers) {
  const Device device = norming_device();
  const Graph simplified = simplify(build_bert(model));
  return fuse(Blocks(simplified, {&device, DType::f32}), {{"000000", layers}});
}

Graph decoder(GraphResult result, std::int64_t layers = 2) {
  Model model = read_model(std::filesystem::path(STOF_SOURCE_DIR) / "tests/data/families/gpt2");
  model.config.layers = layers;
  return fused_by_default(build_graph(model, result));
}

Graph unfused(const Model& model) {
  Graph graph = build_bert(model);
  infer(graph);
  return graph;
}

// Weights are views of the models' memory, which nothing here reads.
std::vector<std::pair<std::string, Graph>> graphs() {
  return {{"unfused", unfused(small_bert(2))},
          {"simplified", simplify(build_bert(small_bert(2)))},
          {"fused", fused_by_default(build_bert(small_bert(3)))},
          {"residuals", fused_on_a_gpu(small_bert(2), "001111100010001110")},
          {"moments", fused_on_a_gpu(small_bert(2), "001111100001110000")},
          {"modernbert", fused_by_default(build_graph(small_modernbert()))},
          {"decoder", decoder(GraphResult::hidden)},
          {"logits", decoder(GraphResult::logits)},
          {"no layers", fused_by_default(build_bert(small_bert(0)))},
          {"no layers, unfused", unfused(small_bert(0))},
          {"logits of no layers", decoder(GraphResult::logits, 0)}};
}

bool reads(const Graph& graph, std::size_t first, std::size_t last, ValueId value) {
  for (std::size_t n = first; n < last; ++n)
    if (std::ranges::count(graph.nodes[n].inputs, value) > 0) return true;
  return false;
}

std::size_t maker_of(const Graph& graph, ValueId value) {
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    if (graph.nodes[n].output == value) return n;
  return graph.nodes.size();
}

// What of the values is needed behind node n, the steps of a part ending at `last`: also by what follows that part.
bool is_needed(const Graph& graph, const SplitArena& split, std::size_t n, std::size_t last, ValueId value) {
  const bool later = last == split.cut && std::ranges::count(split.live, value) > 0;
  return later || value == graph.result || reads(graph, n + 1, last, value);
}

void expect_apart(const Graph& graph, const ArenaPlan& plan, const std::vector<ValueId>& values, std::size_t node) {
  for (const ValueId a : values)
    for (const ValueId b : values) {
      if (a >= b) continue;
      const std::int64_t a0 = plan.offset[static_cast<std::size_t>(a)], b0 = plan.offset[static_cast<std::size_t>(b)];
      EXPECT_TRUE(a0 + graph.value(a).arena_columns() <= b0 || b0 + graph.value(b).arena_columns() <= a0)
          << "behind node " << node << " values " << a << " and " << b;
    }
}

// Behind each node of a part what is needed later lies apart, and inside the arena.
void expect_apart(const Graph& graph, const SplitArena& split, bool tail) {
  const ArenaPlan& plan = tail ? split.tail : split.body;
  const std::size_t first = tail ? split.cut : 0, last = tail ? graph.nodes.size() : split.cut;
  for (std::size_t n = first; n < last; ++n) {
    std::vector<ValueId> there;
    for (ValueId value = 0; value < std::ssize(graph.values); ++value) {
      const std::size_t maker = maker_of(graph, value);
      const bool is_made = maker <= n && (!tail || maker >= first || std::ranges::count(split.live, value) > 0);
      if (!is_made || (value != graph.nodes[n].output && !is_needed(graph, split, n, last, value))) continue;
      there.push_back(value);
      EXPECT_LE(plan.offset[static_cast<std::size_t>(value)] + graph.value(value).arena_columns(), plan.columns);
    }
    expect_apart(graph, plan, there, n);
  }
  if (tail) expect_apart(graph, plan, split.live, first);  // as they are copied
}

bool needs_all_rows(const Node& node) {
  const std::string_view name = name_of(node.op);
  return name == "attend" || name == "attend_packed" || name == "embed" || name == "lookup" || name == "rope";
}

TEST(SplitArena, CutsBehindTheLastStepThatNeedsAllRows) {
  for (const auto& [what, graph] : graphs()) {
    SCOPED_TRACE(what);
    const SplitArena split = split_arena(graph);
    ASSERT_GT(split.cut, 0U);
    EXPECT_TRUE(needs_all_rows(graph.nodes[split.cut - 1])) << name_of(graph.nodes[split.cut - 1].op);
    for (std::size_t n = split.cut; n < graph.nodes.size(); ++n) EXPECT_FALSE(needs_all_rows(graph.nodes[n])) << n;
  }
}

TEST(SplitArena, WhatTheTailReadsOfTheBodyLives) {
  for (const auto& [what, graph] : graphs()) {
    SCOPED_TRACE(what);
    const SplitArena split = split_arena(graph);
    std::vector<ValueId> want;
    for (ValueId value = 0; value < std::ssize(graph.values); ++value)
      if (maker_of(graph, value) < split.cut &&
          (value == graph.result || reads(graph, split.cut, graph.nodes.size(), value)))
        want.push_back(value);
    EXPECT_EQ(split.live, want);
    EXPECT_FALSE(split.live.empty());
  }
}

TEST(SplitArena, ValuesNeededTogetherDoNotOverlap) {
  for (const auto& [what, graph] : graphs()) {
    SCOPED_TRACE(what);
    const SplitArena split = split_arena(graph);
    expect_apart(graph, split, false);
    expect_apart(graph, split, true);
  }
}

// Attention's result and the residual; behind a model without layers what is looked up.
TEST(SplitArena, FewValuesLiveAcrossTheCut) {
  EXPECT_EQ(split_arena(fused_by_default(build_bert(small_bert(3)))).live.size(), 2U);
  EXPECT_EQ(split_arena(decoder(GraphResult::logits)).live.size(), 2U);
  EXPECT_EQ(split_arena(fused_by_default(build_bert(small_bert(0)))).live.size(), 1U);
}

// Such a residual has its moments behind it.
TEST(SplitArena, MomentsLiveAcrossTheCut) {
  const Graph graph = fused_on_a_gpu(small_bert(2), "001111100001110000");
  const SplitArena split = split_arena(graph);
  EXPECT_EQ(std::ranges::count_if(split.live, [&](ValueId value) { return graph.value(value).moments; }), 1);
}

// What lies there before a call, for steps that are timed alone, is of all rows.
TEST(SplitArena, InputsLiveAcrossTheCut) {
  Graph graph;
  graph.values = {{.name = "x", .columns = 8}, {.name = "y", .columns = 8}};
  graph.nodes = {{.op = op::Input{8}, .inputs = {}, .weights = {}, .output = 0},
                 {.op = op::Activate{Activation::relu}, .inputs = {0}, .weights = {}, .output = 1}};
  graph.result = 1;
  const SplitArena split = split_arena(graph);
  EXPECT_EQ(split.cut, 1U);
  EXPECT_EQ(split.live, std::vector<ValueId>{0});
  EXPECT_EQ(split.body.columns, 8);
  EXPECT_EQ(split.tail.columns, 16);  // the input stays
}

// A result that is there before the cut goes through no further step.
TEST(SplitArena, AResultOfTheBodyLives) {
  Graph graph = fused_by_default(build_bert(small_bert(2)));
  while (name_of(graph.nodes.back().op) != "attend_packed") graph.nodes.pop_back();
  graph.result = graph.nodes.back().output;
  const SplitArena split = split_arena(graph);
  EXPECT_EQ(split.cut, graph.nodes.size());
  EXPECT_EQ(split.live, std::vector<ValueId>{graph.result});
  EXPECT_EQ(split.tail.columns, 24);
}

// Scores of a vocabulary of 800 words, beside hidden states of 32.
TEST(SplitArena, ScoresOfFewRowsHoldLess) {
  const Model model = read_model(std::filesystem::path(STOF_SOURCE_DIR) / "tests/data/families/gpt2");
  const Program program(fused_by_default(build_graph(model, GraphResult::logits)),
                        {.device = open_device("cpu"), .longest = model.config.max_positions});
  EXPECT_LT(4 * program.arena_bytes(200, 1), program.arena_bytes(200));
  EXPECT_GT(program.arena_bytes(200, 199), program.arena_bytes(200));  // the layers, and nearly all of the rest
}

}  // namespace
}  // namespace stof
