// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "src/fusion/fuse.h"
#include "src/graph/build.h"
#include "src/graph/infer.h"
#include "src/graph/simplify.h"
#include "tests/fusion/norming_device.h"
#include "tests/runtime/small_bert.h"

namespace stof {
namespace {

RowBatch rows_of_two_texts() {
  TokenBatch batch;
  batch.add(std::vector<std::int32_t>{3, 1, 4, 1, 5, 9, 2, 6});
  batch.add(std::vector<std::int32_t>{2, 7, 1, 8, 2});
  return make_rows(batch, {.vocabulary = 50, .longest = 96}, false);
}

// Runs with guard bytes on both sides of the planned arena.
std::vector<float> run_guarded(const Graph& graph) {
  const Program program(graph, {.device = open_device("cpu"), .longest = 96});
  const RowBatch batch = rows_of_two_texts();
  const std::int64_t bytes = program.arena_bytes(batch.rows), guard = 4096;
  Tensor memory(DType::boolean, {bytes + 2 * guard});
  std::memset(memory.data(), 0, memory.bytes());
  auto* arena = memory.as<std::byte>() + guard;
  std::fill_n(memory.as<std::uint8_t>(), guard, std::uint8_t{0xA5});
  std::fill_n(memory.as<std::uint8_t>() + guard + bytes, guard, std::uint8_t{0xA5});
  const auto* result = static_cast<const float*>(program.run(batch, arena));
  std::vector<float> values(result, result + batch.rows * program.result_columns());
  for (std::int64_t i = 0; i < guard; ++i) {
    EXPECT_EQ(memory.as<std::uint8_t>()[i], 0xA5);
    EXPECT_EQ(memory.as<std::uint8_t>()[guard + bytes + i], 0xA5);
  }
  return values;
}

TEST(Program, EveryPassKeepsTheResult) {
  const Model model = small_bert();
  Graph graph = build_bert(model);
  infer(graph);
  const std::vector<float> want = run_guarded(graph);
  const auto expect_same = [&](const Graph& changed, std::string_view by) {
    const std::vector<float> got = run_guarded(changed);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5) << by;
  };
  for (const Pass& pass : simplify_passes()) {
    const std::size_t before = graph.nodes.size();
    graph = pass.run(std::move(graph));
    infer(graph);
    EXPECT_LT(graph.nodes.size(), before) << pass.name << " did nothing";
    expect_same(graph, pass.name);
  }
  expect_same(fused_by_default(build_bert(model)), "fusion");
}

TEST(ArenaPlan, IsAsSmallAsWhatIsAlive) {
  const Model model = small_bert(4);
  const Graph graph = fused_by_default(build_bert(model));
  EXPECT_EQ(plan_arena(graph).columns, live_columns(graph));
  const Model other = read_model(std::filesystem::path(STOF_SOURCE_DIR) / "tests/data/families/gpt2");
  const Graph sums_apart = fused_by_default(build_gpt2(other));
  EXPECT_EQ(plan_arena(sums_apart).columns, live_columns(sums_apart));
}

// What the node may overwrite, by what it is.
bool overwrites(const Node& node, ValueId input) {
  const std::string_view name = name_of(node.op);
  if (name == "linear") return node.inputs.size() == 2 && input == node.inputs[1];
  return name == "add" || name == "add_bias" || name == "activate" || name == "layer_norm" || name == "add_layer_norm";
}

void expect_apart(const Graph& graph) {
  const ArenaPlan plan = plan_arena(graph);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    std::vector<ValueId> alive{node.output};
    for (std::size_t m = 0; m < n; ++m) {
      const ValueId value = graph.nodes[m].output;
      bool later = value == graph.result;
      for (std::size_t u = n + 1; u < graph.nodes.size(); ++u)
        for (const ValueId input : graph.nodes[u].inputs) later |= input == value;
      const bool read = std::count(node.inputs.begin(), node.inputs.end(), value) > 0;
      if (later || (read && !(overwrites(node, value) && plan.offset[static_cast<std::size_t>(value)] ==
                                                             plan.offset[static_cast<std::size_t>(node.output)])))
        alive.push_back(value);
    }
    for (const ValueId a : alive)
      for (const ValueId b : alive) {
        if (a >= b) continue;
        const std::int64_t a0 = plan.offset[static_cast<std::size_t>(a)], b0 = plan.offset[static_cast<std::size_t>(b)];
        EXPECT_TRUE(a0 + graph.value(a).arena_columns() <= b0 || b0 + graph.value(b).arena_columns() <= a0)
            << "node " << n;
      }
  }
}

TEST(ArenaPlan, ValuesAliveTogetherDoNotOverlap) {
  const Model model = small_bert(2);
  Graph graph = build_bert(model);
  infer(graph);
  expect_apart(graph);
  expect_apart(fused_by_default(build_bert(model)));
}

Graph fused_on_a_gpu(const Model& model, const char* layers) {
  const Device device = norming_device();
  const Graph simplified = simplify(build_bert(model));
  return fuse(Blocks(simplified, {&device, DType::f32}), {{"000000", layers}});
}

// Layers as a GPU runs them: a residual becomes the sum, and the sum its norm, where it lies.
TEST(ArenaPlan, RowsAreChangedWhereTheyLie) {
  const Model model = small_bert(2);
  const Graph graph = fused_on_a_gpu(model, "001111100010001110");
  expect_apart(graph);
  const ArenaPlan plan = plan_arena(graph);
  int changed = 0;
  for (const Node& node : graph.nodes)
    for (const ValueId input : node.inputs)
      if (overwrites(node, input)) {
        EXPECT_EQ(plan.offset[static_cast<std::size_t>(input)], plan.offset[static_cast<std::size_t>(node.output)]);
        ++changed;
      }
  EXPECT_EQ(changed, 2 * 4);
  EXPECT_EQ(plan.columns, 24 + 3 * 24 + 24);  // the residual, q with k and v, what attention gives
  EXPECT_EQ(plan.columns, live_columns(graph));
}

// A residual that is normalised has its moments where those of the sum would be written.
TEST(ArenaPlan, ANormalisedResidualStays) {
  const Model model = small_bert(2);
  const Graph graph = fused_on_a_gpu(model, "001111100001110000");
  expect_apart(graph);
  const ArenaPlan plan = plan_arena(graph);
  int stayed = 0;
  for (const Node& node : graph.nodes)
    if (const auto* linear = std::get_if<op::Linear>(&node.op); linear != nullptr && linear->residual_norm) {
      EXPECT_NE(plan.offset[static_cast<std::size_t>(node.inputs[1])],
                plan.offset[static_cast<std::size_t>(node.output)]);
      ++stayed;
    }
  EXPECT_EQ(stayed, 3);
}

}  // namespace
}  // namespace stof
