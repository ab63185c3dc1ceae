// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/cache_layer.h"

#include <gtest/gtest.h>

#include "src/graph/build.h"
#include "src/graph/infer.h"
#include "src/graph/simplify.h"
#include "src/model/model.h"
#include "tests/source_folder.h"

namespace stof {
namespace {

Graph graph_of(const std::string& family) {
  const Model model = read_model(source_folder() / "tests/data/families" / family);
  return simplify(build_graph(model, GraphResult::logits));
}

template <class Op>
std::vector<std::size_t> nodes_of(const Graph& graph) {
  std::vector<std::size_t> nodes;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (std::holds_alternative<Op>(graph.nodes[i].op)) nodes.push_back(i);
  return nodes;
}

TEST(CacheLayers, AreWrittenByTheRotationInFrontOfEachAttention) {
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3", "phi3", "phi4", "gemma2", "gemma3"}) {
    SCOPED_TRACE(family);
    const Graph graph = graph_of(family);
    const auto layers = cache_layers(graph);
    const auto rotations = nodes_of<op::Rotate>(graph), attentions = nodes_of<op::AttendPacked>(graph);
    ASSERT_EQ(rotations.size(), attentions.size());
    std::int64_t column = 0;
    for (std::size_t i = 0; i < attentions.size(); ++i) {
      const Node& node = graph.nodes[attentions[i]];
      const auto& packed = std::get<op::AttendPacked>(node.op);
      const auto layer = layers[attentions[i]], written = layers[rotations[i]];
      ASSERT_TRUE(layer && written);
      for (const auto& of : {layer, written}) {
        EXPECT_EQ(of->rotation, rotations[i]);
        EXPECT_EQ(of->attention, attentions[i]);
      }
      EXPECT_EQ(layer->column, column);
      EXPECT_EQ(written->column, column);
      EXPECT_EQ(layer->width, 2 * packed.kv_heads * packed_head_dim(packed, graph.value(node.inputs[0]).columns));
      column += layer->width;
    }
    EXPECT_EQ(std::ranges::count_if(layers, [](const auto& layer) { return layer.has_value(); }),
              std::ssize(rotations) + std::ssize(attentions));
  }
}

TEST(CacheLayers, AreCopiedWhereNothingIsTurned) {
  const Graph graph = graph_of("gpt2");
  const auto layers = cache_layers(graph);
  for (const std::size_t node : nodes_of<op::AttendPacked>(graph))
    EXPECT_FALSE(layers[node].value().rotation.has_value());
}

// Of the second layer, whose columns stay behind those of the first.
TEST(CacheLayers, AreCopiedWhereSomethingElseReadsWhatIsTurned) {
  const Graph graph = graph_of("llama");
  const std::size_t rotation = nodes_of<op::Rotate>(graph)[1], attention = nodes_of<op::AttendPacked>(graph)[1];
  const auto expect_copied = [&](const Graph& changed) {
    const auto layers = cache_layers(changed);
    EXPECT_FALSE(layers[rotation].has_value());
    EXPECT_FALSE(layers[attention].value().rotation.has_value());
    EXPECT_EQ(layers[attention]->column, cache_layers(graph)[attention]->column);
    EXPECT_TRUE(layers[nodes_of<op::Rotate>(graph)[0]].has_value());
  };
  Graph result = graph;
  result.result = graph.nodes[rotation].output;
  expect_copied(result);
  Graph read_twice = graph;
  read_twice.nodes.push_back({.op = op::Activate{},
                              .inputs = {graph.nodes[rotation].output},
                              .weights = {},
                              .output = read_twice.add_value("more")});
  expect_copied(read_twice);
  Graph read_before = graph;
  read_before.nodes.push_back({.op = op::Activate{},
                               .inputs = {graph.nodes[rotation].inputs[0]},
                               .weights = {},
                               .output = read_before.add_value("more")});
  expect_copied(read_before);
  Graph other_heads = graph;
  std::get<op::Rotate>(other_heads.nodes[rotation].op).heads += 2;
  std::get<op::Rotate>(other_heads.nodes[rotation].op).kv_heads -= 1;
  expect_copied(other_heads);
}

}  // namespace
}  // namespace stof
