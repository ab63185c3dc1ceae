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
