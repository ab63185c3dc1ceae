// SPDX-License-Identifier: Apache-2.0
// Norms that matmuls apply to their operands: the result of the model stays, and its norms are gone.
#include "src/fusion/defer_norms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "src/fusion/fuse.h"
#include "src/fusion/plan_model.h"
#include "src/fusion/work.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "src/runtime/program.h"
#include "tests/fusion/norming_device.h"
#include "tests/runtime/small_bert.h"
#include "tests/runtime/small_modernbert.h"

namespace stof {
namespace {

std::vector<float> run(const Graph& graph, const Model& model, const Device& device) {
  const Program program(graph, {.device = device, .longest = model.config.max_positions});
  const RowBatch batch = make_rows(
      texts_of({9, 14}), {.vocabulary = model.config.vocab_size, .longest = model.config.max_positions}, false);
  const Tensor arena(DType::boolean, {program.arena_bytes(batch.rows) + 64});
  std::memset(arena.data(), 0, arena.bytes());
  const auto* result = static_cast<const float*>(program.run(batch, arena.as<std::byte>()));
  return {result, result + batch.rows * program.result_columns()};
}

std::vector<std::string> works_of(const Graph& graph) {
  std::vector<std::string> works;
  for (const Node& node : graph.nodes) works.push_back(work_text(graph, node));
  return works;
}

class DeferNorms : public ::testing::Test {
 protected:
  Model model_ = small_bert(3);
  Graph graph_ = simplify(build_bert(model_));
  Device device_ = norming_device();
  Blocks blocks_{graph_, {&device_, DType::f32}};
  Scheme scheme_ = scheme_of_templates(
      blocks_, std::vector<std::string_view>{"embedding_norm", "linear", "linear_activation", "linear_residual_norm"});
};

TEST_F(DeferNorms, OnlyTheFirstAndTheLastNormAreLeft) {
  ASSERT_EQ(scheme_.bits[1], "001111100001110000");
  const Graph fused = fuse(blocks_, scheme_);
  EXPECT_EQ(works_of(fused), (std::vector<std::string>{
                                 "embed 24 token+segment+position epsilon=1e-12",
                                 "linear 24>72",
                                 "attend_packed 72>24 heads=3 mask=all",
                                 "linear 24>24 residual moments",
                                 "linear 24>40 gelu x_norm",
                                 "linear 40>24 residual residual_norm moments",
                                 "linear 24>72 x_norm",
                                 "attend_packed 72>24 heads=3 mask=all",
                                 "linear 24>24 residual residual_norm moments",
                                 "linear 24>40 gelu x_norm",
                                 "linear 40>24 residual residual_norm moments",
                                 "linear 24>72 x_norm",
                                 "attend_packed 72>24 heads=3 mask=all",
                                 "linear 24>24 residual residual_norm moments",
                                 "linear 24>40 gelu x_norm",
                                 "linear 40>24 residual residual_norm",
                                 "layer_norm 24>24 epsilon=1e-12",
                             }));
}

// Pre-norm, without biases: the sum is read by the norm and by the next sum, and a gate has its operand normalised.
TEST(DeferNormsOfModernBert, OnlyTheLastNormIsLeft) {
  const Model model = small_modernbert();
  const Graph graph = simplify(build_graph(model));
  const Device device = norming_device();
  const Blocks blocks(graph, {&device, DType::f32});
  const Scheme scheme = scheme_of_templates(
      blocks,
      std::vector<std::string_view>{"embedding_norm", "product_residual_norm", "product_residual", "product_gate"});
  const Graph fused = fuse(blocks, scheme);
  const std::vector<std::string> works = works_of(fused);
  ASSERT_EQ(works.size(), 1 + 4 * 6U + 1);
  const std::vector<std::string> first{
      "embed 128 token epsilon=1e-05",        "matmul 128>384",
      "rope 384>384 heads=2 theta=160000",    "attend_packed 384>128 heads=2 mask=all",
      "linear 128>128 residual bare moments", "linear 128>192 gelu bare gate x_norm",
      "linear 192>128 residual bare moments", "linear 128>384 bare x_norm",
      "rope 384>384 heads=2 theta=10000",     "attend_packed 384>128 heads=2 mask=window(64)"};
  EXPECT_EQ(std::vector<std::string>(works.begin(), works.begin() + std::ssize(first)), first);
  EXPECT_EQ(works[works.size() - 2], "linear 192>128 residual bare");
  EXPECT_EQ(works.back(), "layer_norm 128>128 epsilon=1e-05");
  const std::vector<float> want = run(graph, model, open_device("cpu")), got = run(fused, model, device);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-5);
}

// The same with q and k turned by the matmuls that make them.
TEST(DeferNormsOfModernBert, AMatmulTurnsWhatItMakes) {
  const Model model = small_modernbert();
  const Graph graph = simplify(build_graph(model));
  const Device device = norming_device();
  const Blocks blocks(graph, {&device, DType::f32});
  const Scheme scheme =
      scheme_of_templates(blocks, std::vector<std::string_view>{"embedding_norm", "product_residual_norm",
                                                                "product_residual", "product_gate", "product_rope"});
  const Graph fused = fuse(blocks, scheme);
  const std::vector<std::string> works = works_of(fused);
  ASSERT_EQ(works.size(), 1 + 4 * 5U + 1);
  EXPECT_EQ(works[1], "linear 128>384 bare rope=(heads=2 theta=160000)");
  EXPECT_EQ(works[6], "linear 128>384 bare rope=(heads=2 theta=10000) x_norm");
  const std::vector<float> want = run(graph, model, open_device("cpu")), got = run(fused, model, device);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-5);
}

TEST_F(DeferNorms, TheResultStays) {
  const std::vector<float> want = run(graph_, model_, open_device("cpu"));
  const std::vector<float> got = run(fuse(blocks_, scheme_), model_, device_);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-5);
}

// A residual that a row kernel adds cannot be normalised on the way: the norm stays a node.
TEST_F(DeferNorms, ANormThatIsReadOtherwiseStays) {
  Scheme half = scheme_;
  half.bits[1] = "001111100001110011";  // the second residual and norm are rows
  const std::vector<std::string> works = works_of(fuse(blocks_, half));
  EXPECT_EQ(std::count(works.begin(), works.end(), "layer_norm 24>24 epsilon=1e-12"), 3);
  EXPECT_EQ(std::count(works.begin(), works.end(), "linear 24>24 residual"), 3);
}

TEST_F(DeferNorms, IsNoTemplateOfOtherDevices) {
  const Blocks elsewhere(graph_);
  EXPECT_EQ(broken_rule(elsewhere, 1, {7, 11})->name, "template");
  EXPECT_EQ(broken_rule(blocks_, 1, {7, 11}), nullptr);
}

// The search by predictions finds it on its own where it is the cheapest.
TEST_F(DeferNorms, PredictionsAskForIt) {
  const SearchResult found = analytical_search(blocks_, {&device_, DType::f32, 32, 1, 32});
  EXPECT_EQ(found.scheme.bits[1], scheme_.bits[1]);
}

}  // namespace
}  // namespace stof
