// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/paired_products.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "src/fusion/fuse.h"
#include "src/fusion/isolate.h"
#include "src/graph/build.h"
#include "src/graph/infer.h"
#include "src/graph/simplify.h"
#include "tests/runtime/small_modernbert.h"

namespace stof {
namespace {

class PairedProducts : public ::testing::Test {
 protected:
  // Operator by operator.
  static Graph graph_of(ModelConfig config) {
    Model model = small_modernbert(std::move(config));
    const Graph simplified = simplify(build_modernbert(model));
    const Device host = open_device("cpu");
    const Blocks blocks(simplified, {&host, DType::f32});
    return fuse(blocks, detached_scheme(blocks));
  }
  static std::ptrdiff_t count(const Graph& graph) {
    const std::vector<bool> paired = paired_products(graph);
    return std::ranges::count(paired, true);
  }
  Node& first_gate() {
    return *std::ranges::find_if(graph_.nodes,
                                 [](const Node& node) { return std::holds_alternative<op::Gate>(node.op); });
  }
  Node& producer(ValueId value) {
    return *std::ranges::find_if(graph_.nodes, [&](const Node& node) { return node.output == value; });
  }
  void add_reader(Op op, ValueId value) {
    const ValueId output = graph_.add_value("further");
    graph_.nodes.push_back({.op = std::move(op), .inputs = {value}, .weights = {}, .output = output});
    infer(graph_);
  }

  Graph graph_ = graph_of(small_modernbert_config());
  const std::ptrdiff_t layers_ = small_modernbert_config().layers;
};

TEST_F(PairedProducts, AreThoseThatGatesAloneRead) {
  EXPECT_EQ(count(graph_), layers_);
  const ValueId product = first_gate().inputs[0];
  EXPECT_TRUE(paired_products(graph_)[static_cast<std::size_t>(product)]);
  add_reader(op::Gate{Activation::relu}, product);
  EXPECT_EQ(count(graph_), layers_);
  add_reader(op::Activate{Activation::relu}, product);
  EXPECT_EQ(count(graph_), layers_ - 1);
}

TEST_F(PairedProducts, AreNoResults) {
  graph_.result = first_gate().inputs[0];
  EXPECT_EQ(count(graph_), layers_ - 1);
}

// Fewer columns of a half than 8, or a rest.
TEST_F(PairedProducts, HaveWholeTurns) {
  ModelConfig config = small_modernbert_config();
  config.intermediate_size = 100;
  EXPECT_EQ(count(graph_of(config)), 0);
}

TEST_F(PairedProducts, HaveNothingBehindThemThatSeesColumns) {
  const ValueId value = first_gate().inputs[0];
  Node& product = producer(value);
  product.op = op::Linear{.activation = Activation::relu, .bias = false};
  EXPECT_EQ(count(graph_), layers_);
  product.inputs.push_back(product.inputs[0]);  // a residual
  EXPECT_EQ(count(graph_), layers_ - 1);
}

// What is timed by itself is in the order of its own, whatever reads it in the model.
TEST_F(PairedProducts, AreNotThoseOfANodeAlone) {
  const Node& gate = first_gate();
  EXPECT_EQ(count(isolated(graph_, producer(gate.inputs[0]))), 0);
  EXPECT_EQ(count(isolated(graph_, gate)), 0);
}

}  // namespace
}  // namespace stof
