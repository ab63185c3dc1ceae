// SPDX-License-Identifier: Apache-2.0
// What T5's layers add is smaller by a power of two, so that 16 bits hold the sums, and nothing else is.
#include "src/model/t5_sums.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "src/graph/build.h"
#include "src/model/weight_files.h"
#include "src/tensor/convert.h"
#include "tests/source_folder.h"

namespace stof {
namespace {

class T5Sums : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Families, T5Sums, testing::Values("t5", "t5_gated"),
                         [](const auto& test) { return test.param; });

TEST_P(T5Sums, AreMadeOfSmallerWeights) {
  const std::filesystem::path folder = source_folder() / "tests/data/families" / GetParam();
  const Model model = read_model(folder);
  const WeightFiles files = read_weight_files(folder);
  std::set<std::string> smaller;
  for (const auto& [name, stored] : files.tensors.tensors) {
    if (stored.shape.empty()) continue;
    const Tensor was = converted(stored, DType::f32), is = converted(model.weight(name, stored.shape), DType::f32);
    std::int64_t scaled = 0, kept = 0;
    for (std::int64_t i = 0; i < was.size(); ++i) {
      scaled += is.as<float>()[i] == was.as<float>()[i] * kT5SumScale;  // exactly
      kept += is.as<float>()[i] == was.as<float>()[i];
    }
    if (scaled == was.size()) smaller.insert(name);
    else EXPECT_EQ(kept, was.size()) << name;
  }
  std::set<std::string> added{"shared.weight"};
  for (int layer = 0; layer < 3; ++layer)
    for (const char* part : {"0.SelfAttention.o", "1.DenseReluDense.wo"})
      added.insert(fmt::format("encoder.block.{}.layer.{}.weight", layer, part));
  EXPECT_EQ(smaller, added);
}

// A table of the encoder's own is the one that is looked up in; what a decoder shares stays as it is then.
TEST(T5Table, IsSmallerWhereItIsLookedUpIn) {
  const Model was = read_model(source_folder() / "tests/data/families/t5");
  for (const bool both : {false, true}) {
    Model model = was;
    const TensorView table = model.weights.at("shared.weight");
    model.weights.emplace("encoder.embed_tokens.weight", table);
    if (!both) model.weights.erase("shared.weight");
    make_sums_small(model);
    const TensorView& looked_up = model.weight("encoder.embed_tokens.weight", table.shape);
    for (std::int64_t i = 0; i < element_count(table.shape); ++i)
      ASSERT_EQ(static_cast<const float*>(looked_up.data)[i], static_cast<const float*>(table.data)[i] * kT5SumScale);
    EXPECT_EQ(both, model.has("shared.weight") && model.weights.at("shared.weight").data == table.data);
    const Graph graph = build_graph(model);
    ASSERT_TRUE(std::holds_alternative<op::Lookup>(graph.nodes[0].op));
    EXPECT_EQ(graph.nodes[0].weights[0].tensor.data, looked_up.data);
  }
}

TEST_P(T5Sums, AreNormalisedByAnEpsilonThatIsSmallerToo) {
  const Model model = read_model(source_folder() / "tests/data/families" / GetParam());
  int norms = 0;
  for (const Node& node : build_graph(model).nodes)
    if (const auto* norm = std::get_if<op::RmsNorm>(&node.op)) {
      EXPECT_EQ(norm->epsilon, model.config.norm_epsilon / 4096);
      ++norms;
    }
  EXPECT_EQ(norms, 7);
}

}  // namespace
}  // namespace stof
