// SPDX-License-Identifier: Apache-2.0
// Programs of calls of few rows, of models and devices that are only described.
#include "src/fusion/few_rows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "src/backend/contract.h"
#include "src/fusion/fuse.h"
#include "src/graph/build.h"
#include "src/graph/print.h"
#include "src/graph/simplify.h"
#include "src/model/model.h"
#include "tests/source_folder.h"

namespace stof {
namespace {

class FewRows : public ::testing::Test {
 protected:
  Graph fused(const std::string& family, DType dtype = DType::bf16, bool few_rows = true,
              GraphResult result = GraphResult::logits) {
    model_ = read_model(source_folder() / "tests/data/families" / family);
    const Graph graph = simplify(build_graph(model_, result));
    const Blocks blocks(graph, {.device = &device_, .dtype = dtype, .few_rows = few_rows});
    return fuse(blocks, few_rows ? few_rows_scheme(blocks) : default_scheme(blocks));
  }
  static std::vector<std::string> operations(const Graph& graph) {
    std::vector<std::string> all;
    for (const Node& node : graph.nodes) {
      const std::string detail = detail_of(node.op);
      std::string text(name_of(node.op));
      if (std::holds_alternative<op::Linear>(node.op))
        text += fmt::format(" {}{}", detail, node.inputs.size() == 2 ? " residual" : "");
      all.push_back(text);
    }
    return all;
  }
  static std::ptrdiff_t count(const Graph& graph, const std::string& begin) {
    const std::vector<std::string> all = operations(graph);
    return std::count_if(all.begin(), all.end(), [&](const std::string& text) { return text.starts_with(begin); });
  }

  Device device_ = open_device("cuda:h200");
  Model model_;
};

TEST_F(FewRows, HaveFiveKernelsALayerOfADecoder) {
  const Graph graph = fused("qwen3");
  const std::vector<std::string> layer{"linear bare few_rows rms_norm=1e-06",
                                       "rope",
                                       "attend_packed",
                                       "linear bare residual",
                                       "linear silu bare gate few_rows rms_norm=1e-06",
                                       "linear bare residual"};
  std::vector<std::string> want{"lookup"};
  for (std::int64_t i = 0; i < model_.config.layers; ++i) want.insert(want.end(), layer.begin(), layer.end());
  want.push_back(layer.front());  // scores
  EXPECT_EQ(operations(graph), want);
}

TEST_F(FewRows, KeepBiasesBehindNormsAndLayerNorms) {
  const Graph with_biases = fused("llama_with_biases");
  EXPECT_EQ(count(with_biases, "rms_norm"), 0);
  EXPECT_EQ(count(with_biases, "linear few_rows rms_norm"), model_.config.layers);  // q, k, v with their biases
  const Graph gpt2 = fused("gpt2");
  EXPECT_EQ(count(gpt2, "layer_norm"), 0);
  EXPECT_EQ(count(gpt2, "linear few_rows norm"), model_.config.layers);
  EXPECT_EQ(count(gpt2, "linear gelu_tanh few_rows norm"), model_.config.layers);
}

// Norms that others read too, and dtypes and devices without such matmuls, keep their own kernels.
TEST_F(FewRows, AreLeftAloneWhereNothingTakesThem) {
  const Graph f32 = fused("llama", DType::f32), any_rows = fused("llama", DType::bf16, false);
  EXPECT_EQ(count(f32, "rms_norm"), 2 * model_.config.layers + 1);
  EXPECT_EQ(count(any_rows, "rms_norm"), 2 * model_.config.layers + 1);
  // Behind a residual that is added to the norm, not to what it norms.
  const Graph encoder = fused("roberta", DType::bf16, true, GraphResult::hidden);
  EXPECT_EQ(count(encoder, "add_layer_norm") + count(encoder, "layer_norm"), 2 * model_.config.layers);
}

TEST_F(FewRows, AreTakenByOneKernelAlone) {
  LinearSpec spec{.weight = {view_of(nullptr, DType::f16, {64, 32})}, .bias = {}, .gate = true, .dtype = DType::f16};
  spec.device = &device_;
  const MatmulOperations& matmul = device_.backend->matmul;
  EXPECT_EQ(matmul.refuses(spec, 1, matmul_setting_of("gemv 16")),
            "gemv takes a gate of matmuls that are for few rows alone");
  spec.few_rows = true;
  EXPECT_EQ(matmul.refuses(spec, 1, matmul_setting_of("gemv 16")), std::nullopt);
  EXPECT_EQ(matmul.refuses(spec, 1, matmul_setting_of("gemv 8")),
            "'gemv 8' does not hold a gate and what it lets through");
  EXPECT_EQ(matmul.refuses(spec, 17, matmul_setting_of("gemv 16")), "gemv takes up to 16 rows, not 17");
  EXPECT_EQ(matmul.refuses(spec, 1, matmul_setting_of("gemv 24")), "there is no kernel for 'gemv 24'");
  EXPECT_EQ(matmul.refuses(spec, 1, matmul_setting_of("wgmma 64x64 k64 s6 w1 t1 split1")),
            "wgmma takes no matmul that is for few rows alone");
  EXPECT_EQ(matmul.refuses(spec, 1, {}), "cublaslt takes no matmul that is for few rows alone");
  spec.dtype = DType::f32;
  EXPECT_FALSE(matmul.takes(spec));
}

}  // namespace
}  // namespace stof
