// SPDX-License-Identifier: Apache-2.0
#include "src/graph/graph.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "src/fusion/fuse.h"
#include "src/graph/build.h"
#include "src/graph/infer.h"
#include "src/graph/print.h"
#include "src/graph/simplify.h"
#include "tests/expect_error.h"
#include "tests/runtime/small_bert.h"

namespace stof {
namespace {

TEST(Graph, OneSimplifiedLayerIsSevenNodes) {
  const Model model = small_bert(1);
  EXPECT_EQ(
      to_text(restrict_attention(fused_by_default(build_bert(model)), parse("window(2)"))),
      "%0 = embed() token+segment+position epsilon=1e-12          [tokens, 24]  # embeddings.LayerNorm\n"
      "%1 = linear(%0)                                            [tokens, 72]  # encoder.layer.0.attention.self.qkv\n"
      "%2 = attend_packed(%1) heads=3 mask=window(2)              [tokens, 24]  # encoder.layer.0.attention.self\n"
      "%3 = linear(%2)                                            [tokens, 24]  # "
      "encoder.layer.0.attention.output.dense\n"
      "%4 = add_layer_norm(%3, %0) epsilon=1e-12                  [tokens, 24]  # "
      "encoder.layer.0.attention.output.LayerNorm\n"
      "%5 = linear(%4) gelu                                       [tokens, 40]  # "
      "encoder.layer.0.intermediate.activation\n"
      "%6 = linear(%5)                                            [tokens, 24]  # encoder.layer.0.output.dense\n"
      "%7 = add_layer_norm(%6, %4) epsilon=1e-12                  [tokens, 24]  # encoder.layer.0.output.LayerNorm\n"
      "result %7\n");
}

// Layers that see everything and layers that see a window; a further mask restricts both.
TEST(Graph, LayersHaveMasksOfTheirOwn) {
  const Model model = read_model(std::filesystem::path(STOF_SOURCE_DIR) / "tests/data/families/modernbert");
  const Graph graph = restrict_attention(simplify(build_graph(model)), parse("causal"));
  const std::string text = to_text(graph);
  for (const char* line :
       {"%3 = rope(%2) heads=2 theta=160000                         [tokens, 96]  # layers.0.attn.rotary\n",
        "%4 = attend_packed(%3) heads=2 mask=causal                 [tokens, 32]  # layers.0.attn\n",
        "%9 = gate(%8) gelu                                         [tokens, 48]  # layers.0.mlp.gate\n",
        "%14 = rope(%13) heads=2 theta=10000                        [tokens, 96]  # layers.1.attn.rotary\n",
        "%15 = attend_packed(%14) heads=2 mask=causal & window(6)   [tokens, 32]  # layers.1.attn\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

// Heads that share keys, a window from the second layer on, angles of longer texts, norms of heads.
TEST(Graph, DecodersOfLlamasKindDifferInWhatTheirConfigsSay) {
  const auto text_of = [](const char* family) {
    return to_text(
        simplify(build_graph(read_model(std::filesystem::path(STOF_SOURCE_DIR) / "tests/data/families" / family))));
  };
  const auto expect_line = [](const std::string& text, const std::string& line) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  };
  expect_line(text_of("llama"), "rope(%2) heads=4 kv_heads=2 theta=500 scaling=(llama3 8 64 1 4) [tokens, 128]");
  expect_line(text_of("mistral"), "attend_packed(%3) heads=4 kv_heads=1 mask=causal & window(9) [tokens, 48]");
  expect_line(text_of("qwen2"), "attend_packed(%4) heads=4 kv_heads=2 mask=causal ");
  expect_line(text_of("qwen2"), "attend_packed(%16) heads=4 kv_heads=2 mask=causal & window(15) ");
  expect_line(text_of("gemma2"), "mask=causal & window(9) scale=0.22360679774997896 softcap=2 [tokens, 64]");
  expect_line(text_of("phi3"), "attend_packed(%3) heads=4 kv_heads=2 mask=causal & window(11) [tokens, 32]");
  expect_line(text_of("phi4"), " pairs=6 [tokens, 64]  # layers.0.self_attn.rotary");
  expect_line(text_of("eurobert"), "attend_packed(%3) heads=4 kv_heads=2 mask=all ");
  expect_line(text_of("qwen3"), "rope(%2) heads=4 kv_heads=2 theta=1000000 norm=1e-06  [tokens, 160]");
}

TEST(Graph, DotNamesEveryEdge) {
  const Model model = small_bert(1);
  const std::string dot = to_dot(fused_by_default(build_bert(model)));
  EXPECT_NE(dot.find("  v3 -> v4;\n  v0 -> v4;\n"), std::string::npos) << dot;
}

void expect_refused_of(const Model& model, const std::function<void(Graph&)>& breaks, const std::string& message) {
  Graph graph = fused_by_default(build_graph(model));
  breaks(graph);
  EXPECT_ERROR(infer(graph), ErrorKind::internal, "graph: " + message);
}
void expect_refused(const std::function<void(Graph&)>& breaks, const std::string& message) {
  expect_refused_of(small_bert(1), breaks, message);
}

TEST(Infer, NamesWhatDoesNotFit) {
  expect_refused([](Graph& g) { std::swap(g.nodes[1], g.nodes[2]); },
                 "attend_packed 'encoder.layer.0.attention.self': input 1 is used before it is made");
  expect_refused([](Graph& g) { g.nodes[2].output = 1; },
                 "attend_packed 'encoder.layer.0.attention.self.qkv': its output is made twice");
  expect_refused([](Graph& g) { g.nodes[4].inputs.pop_back(); },
                 "add_layer_norm 'encoder.layer.0.attention.output.LayerNorm': 1 inputs; accepted: 2");
  expect_refused([](Graph& g) { g.nodes[4].weights.pop_back(); },
                 "add_layer_norm 'encoder.layer.0.attention.output.LayerNorm': 1 weights; accepted: 2");
  expect_refused([](Graph& g) { g.nodes[4].inputs[1] = 1; },
                 "add_layer_norm 'encoder.layer.0.attention.output.LayerNorm': input 1 has 72 columns; accepted: 24");
  expect_refused(
      [](Graph& g) {
        g.nodes[3].weights[0].tensor.shape = {24, 23};
      },
      "linear 'encoder.layer.0.attention.output.dense': weight 'encoder.layer.0.attention.output.dense.weight' has "
      "shape "
      "[24, 23]; accepted: [n, 24]");
}

TEST(Infer, NamesPairsThatThereAreNot) {
  const Model phi = read_model(std::filesystem::path(STOF_SOURCE_DIR) / "tests/data/families/phi4");
  for (const std::int64_t pairs : {0, 9})
    expect_refused_of(
        phi, [&](Graph& g) { std::get<op::Rotate>(g.nodes[3].op).pairs = pairs; },
        fmt::format("rope 'layers.0.self_attn.rotary': {} pairs that turn in heads of 16 columns; accepted: 1 to 8",
                    pairs));
}

TEST(Infer, NamesWhatDoesNotFitOfNormsThatAreAddedTo) {
  const Model gemma = read_model(std::filesystem::path(STOF_SOURCE_DIR) / "tests/data/families/gemma3");
  const std::string node = "rms_norm_add 'layers.0.self_attn.residual': ";
  expect_refused_of(
      gemma, [](Graph& g) { g.nodes[6].inputs.pop_back(); }, node + "1 inputs; accepted: 2");
  expect_refused_of(
      gemma, [](Graph& g) { g.nodes[6].weights.clear(); }, node + "0 weights; accepted: 1");
  expect_refused_of(
      gemma, [](Graph& g) { g.nodes[6].inputs[1] = 2; }, node + "input 1 has 128 columns; accepted: 32");
  expect_refused_of(
      gemma, [](Graph& g) { g.nodes[6].weights[0].tensor.shape = {31}; },
      node + "weight 'layers.0.post_attention_layernorm.weight' has shape [31]; accepted: [32]");
}

TEST(Infer, NamesWhatDoesNotFitOfHeadsAndGates) {
  expect_refused([](Graph& g) { g.nodes[2].op = op::Rotate{.heads = 5, .kv_heads = 5}; },
                 "rope 'encoder.layer.0.attention.self': 72 columns for 15 heads of q, k and v; accepted: a multiple");
  expect_refused([](Graph& g) { g.nodes[2].op = op::Rotate{.heads = 3, .kv_heads = 2}; },
                 "rope 'encoder.layer.0.attention.self': 3 heads of 2 for keys; accepted: a multiple");
  expect_refused([](Graph& g) { g.nodes[2].op = op::Rotate{.heads = 4, .kv_heads = 2, .norm = 1e-6}; },
                 "rope 'encoder.layer.0.attention.self': 0 weights; accepted: 2");
  expect_refused([](Graph& g) { g.nodes[2].op = op::Rotate{.heads = 8, .kv_heads = 8}; },
                 "rope 'encoder.layer.0.attention.self': heads of 3 columns; accepted: a multiple of 2");
  expect_refused([](Graph& g) { g.nodes[2] = {.op = op::Rotate{}, .inputs = {5}, .weights = {}, .output = 2}; },
                 "rope 'encoder.layer.0.attention.self': input 5 is used before it is made");
  expect_refused([](Graph& g) { g.nodes[5].op = op::Linear{.gate = true}, g.nodes[5].inputs.push_back(4); },
                 "linear 'encoder.layer.0.intermediate.activation': a gate of 40 columns and 2 inputs; accepted: a "
                 "multiple of 2, and 1");
  const std::string turned = "linear 'encoder.layer.0.attention.self.qkv': ";
  const auto turn = [](Graph& g, std::int64_t heads) -> op::Linear& {
    return std::get<op::Linear>(g.nodes[1].op = op::Linear{.turned = op::Rotate{.heads = heads, .kv_heads = heads}});
  };
  expect_refused([&](Graph& g) { turn(g, 3); }, turned + "turned heads of 8 columns; accepted: a multiple of 16");
  expect_refused([&](Graph& g) { turn(g, 5); }, turned + "72 columns for 15 heads of q, k and v; accepted: a multiple");
  expect_refused([&](Graph& g) { turn(g, 1).turned->norm = 1e-6; },
                 turned + "turned heads with norms of their own; accepted: none of them");
  expect_refused([&](Graph& g) { turn(g, 3).activation = Activation::relu; },
                 turned + "turned heads with a gate, an activation, moments or a residual; accepted: none of them");
  expect_refused([](Graph& g) { g.nodes[5].op = op::Linear{.turned = op::Rotate{}}; },
                 "linear 'encoder.layer.0.intermediate.activation': 40 columns for 3 heads of q, k and v; accepted: a "
                 "multiple");
  expect_refused([](Graph& g) { g.nodes[5].op = op::Gate{}, g.nodes[5].weights.clear(); },
                 "linear 'encoder.layer.0.output.dense': weight 'encoder.layer.0.output.dense.weight' has shape [24, "
                 "40]; accepted: [n, 12]");
  expect_refused([](Graph& g) { g.nodes[2].op = op::AttendPacked{.heads = 5, .kv_heads = 5}; },
                 "attend_packed 'encoder.layer.0.attention.self': 72 columns for 15 heads of q, k and v; accepted: "
                 "a multiple");
  expect_refused([](Graph& g) { std::get<op::AttendPacked>(g.nodes[2].op).scores.biased = true; },
                 "attend_packed 'encoder.layer.0.attention.self': 0 weights; accepted: 1");
  const auto bias = [](Graph& g, std::int64_t heads, std::int64_t places) {
    std::get<op::AttendPacked>(g.nodes[2].op).scores.biased = true;
    g.nodes[2].weights.push_back({"table", view_of(nullptr, DType::f32, {heads, places})});
  };
  expect_refused([&](Graph& g) { bias(g, 2, 7); },
                 "attend_packed 'encoder.layer.0.attention.self': weight 'table' has shape [2, 7]; accepted: [3, 7]");
  expect_refused([&](Graph& g) { bias(g, 3, 6); },
                 "attend_packed 'encoder.layer.0.attention.self': weight 'table' has shape [3, 6]; accepted: [3, 7]");
  expect_refused([](Graph& g) { g.result = 99; }, "the result is not made");
}

TEST(BuildBert, NamesTheMissingWeight) {
  Model model = small_bert(1);
  model.weights.erase("encoder.layer.0.output.dense.bias");
  EXPECT_ERROR(build_bert(model), ErrorKind::bad_file,
               "model.safetensors: tensor 'encoder.layer.0.output.dense.bias' of shape [24] is missing");
  model = small_bert(1);
  model.config.intermediate_size = 41;
  EXPECT_ERROR(build_bert(model), ErrorKind::bad_file,
               "model.safetensors: tensor 'encoder.layer.0.intermediate.dense.weight' has shape [40, 24]; config.json "
               "asks for [41, 24]");
}

}  // namespace
}  // namespace stof
