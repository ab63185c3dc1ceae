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

TEST_P(T5Sums, AreNormalisedByAnEpsilonThatIsSmallerToo) {
  const Model model = read_model(source_folder() / "tests/data/families" / GetParam());
  int norms = 0;
  for (const Node& node : build_graph(model).nodes)
    if (const auto* norm = std::get_if<op::RmsNorm>(&node.op)) {
      EXPECT_EQ(norm->epsilon, model.config.norm_epsilon / 65536);
      ++norms;
    }
  EXPECT_EQ(norms, 7);
}

}  // namespace
}  // namespace stof
