// SPDX-License-Identifier: Apache-2.0
#include "src/fusion/rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "src/fusion/fuse.h"
#include "src/fusion/print.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "tests/expect_error.h"
#include "tests/fusion/norming_device.h"
#include "tests/runtime/small_bert.h"
#include "tests/runtime/small_modernbert.h"

namespace stof {
namespace {

class Rules : public ::testing::Test {
 protected:
  Model model_ = small_bert(2);
  Graph graph_ = simplify(build_bert(model_));
  Blocks blocks_{graph_};
};

TEST_F(Rules, TheDefaultSchemePrintsItsSegments) {
  EXPECT_EQ(to_text(blocks_, default_scheme(blocks_)),
            "embeddings x 1  000000  [lookup lookup add lookup add norm]\n"
            "encoder.layer.* x 2  001111100110001100  [matmul bias] [scores scale mask softmax values] [matmul bias] "
            "[add norm] [matmul bias activate] [matmul bias] [add norm]\n");
  EXPECT_EQ(detached_scheme(blocks_).text(), "010101,010000010101010101");
}

// A layer's operators: matmul bias, five of attention, matmul bias add norm, matmul bias activate, matmul bias add
// norm.
TEST_F(Rules, EachRefusesInItsOwnWords) {
  const auto expect_refused = [&](const std::string& bits, const std::string& message) {
    const Scheme scheme = parse_scheme(bits, blocks_.scheme_shape(), default_scheme(blocks_));
    EXPECT_ERROR(fuse(blocks_, scheme), ErrorKind::invalid_argument, "scheme " + bits + ": operators " + message);
  };
  const std::string attention = "attention is a segment of its own: scores, scale, mask, softmax, values";
  const std::string no_template =
      "no template covers it; templates: one operator, or the five of attention; 2 to 4 lookups, their sums; 1 to 4 "
      "lookups, their sums, norm; matmul, bias; matmul, bias, activate; matmul, bias, add; matmul, activate; "
      "matmul, add; bias, activate; add, norm; rms_norm, add";
  expect_refused("001110000110001100", "2 to 4 (scores, scale, mask): " + attention);
  expect_refused("011111100110001100", "1 to 6 (bias, scores, scale, mask, softmax, values): " + attention);
  expect_refused("001111100001110011", "7 to 10 (matmul, bias, add, norm): " + no_template);
  expect_refused("001111100110000011", "11 to 15 (matmul, bias, activate, matmul, bias): " + no_template);
  expect_refused("001111100000000000",
                 "7 to 17 (matmul, bias, add, norm, matmul, bias, activate, matmul, bias, add, norm): a segment has at "
                 "most 2 matmuls");
  expect_refused(
      "001111100000001100",
      "7 to 13 (matmul, bias, add, norm, matmul, bias, activate): a segment has one result, and only that is "
      "used outside of it");
}

// The sum is used by the norm, and by the next residual.
TEST(RulesOfDecoders, AResultThatIsUsedTwiceStays) {
  Model model = small_bert(2);
  Graph graph = simplify(build_bert(model));
  for (Node& node : graph.nodes)  // pre-norm: the second sum reads the first one
    if (graph.value(node.output).name == "encoder.layer.0.output.residual") node.inputs[1] = node.inputs[1] - 1;
  const Blocks blocks(graph);
  std::set<std::string_view> broken;
  for (std::size_t kind = 0; kind < blocks.kinds().size(); ++kind)
    for (std::size_t begin = 0; begin + 2 <= blocks.operators(kind).size(); ++begin) {
      const FusionSegment pair{begin, begin + 2};
      const Rule* rule = broken_rule(blocks, kind, pair);
      if (blocks.view(kind, pair, 0).names() == "add, norm" && rule != nullptr) broken.insert(rule->name);
    }
  EXPECT_EQ(broken, std::set<std::string_view>{"result"});
}

// Columns of q and k come in another order, which nobody else expects.
TEST(RulesOfTurns, OnlyAttentionReadsWhatAMatmulTurned) {
  const Model model = small_modernbert();
  Graph graph = simplify(build_graph(model));
  const Device device = norming_device();
  const auto rule_of_first_turn = [&] {
    const Blocks blocks(graph, {&device, DType::f32});
    for (std::size_t kind = 0; kind < blocks.kinds().size(); ++kind)
      for (std::size_t begin = 0; begin + 2 <= blocks.operators(kind).size(); ++begin)
        if (blocks.view(kind, {begin, begin + 2}, 0).names() == "matmul, rope") {
          const Rule* broken = broken_rule(blocks, kind, {begin, begin + 2});
          return broken == nullptr ? std::string() : words_of(*broken, blocks);
        }
    return std::string("no turn");
  };
  EXPECT_EQ(rule_of_first_turn(), "");
  for (Node& node : graph.nodes)  // attention takes what was not turned, and a sum what was
    if (const auto* attend = std::get_if<op::AttendPacked>(&node.op); attend != nullptr) {
      node = {.op = op::Activate{Activation::relu}, .inputs = node.inputs, .weights = {}, .output = node.output};
    }
  EXPECT_EQ(rule_of_first_turn(), "only attention reads what a matmul has turned");
}

// On the CPU it is a row operation.
TEST(RulesOfTurns, IsNoTemplateWhereNoMatmulTurns) {
  const Model model = small_modernbert();
  const Graph graph = simplify(build_graph(model));
  const Device cpu = open_device("cpu");
  const Blocks blocks(graph, {&cpu, DType::f32});
  EXPECT_EQ(scheme_of_templates(blocks, std::vector<std::string_view>{"product_rope"}), detached_scheme(blocks));
}

TEST(Templates, EveryTemplateIsNamedOnce) {
  std::set<std::string_view> names;
  for (const Template& known : templates()) EXPECT_TRUE(names.insert(known.name).second) << known.name;
}

}  // namespace
}  // namespace stof
