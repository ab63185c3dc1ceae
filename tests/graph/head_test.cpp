// SPDX-License-Identifier: Apache-2.0
// Which matrix a decoder's scores are made with, where config.json says that it is the tokens' own.
#include <gtest/gtest.h>

#include "src/graph/build.h"
#include "tests/runtime/small_decoder.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

const TensorView& head_of(const Graph& graph) { return graph.nodes.back().weights.at(0).tensor; }

std::filesystem::path family(const std::string& name) {
  return std::filesystem::path(STOF_SOURCE_DIR) / "tests/data/families" / name;
}

TEST(Head, IsTheTokensOwnWhereItIsTied) {
  Model model = small_decoder({});
  const void* const table = model.weights.at("embed_tokens.weight").data;
  EXPECT_EQ(head_of(build_graph(model, GraphResult::logits)).data, table);
  const TensorView& words = model.weights.at("embed_tokens.weight");
  const auto count = static_cast<std::size_t>(element_count(words.shape));
  std::vector<float> copy(words.as<float>(), words.as<float>() + count);
  model.weights["lm_head.weight"] = view_of(copy.data(), DType::f32, words.shape);
  EXPECT_EQ(head_of(build_graph(model, GraphResult::logits)).data, table) << "a copy is taken, and held twice";
  copy.back() += 1;
  EXPECT_EQ(head_of(build_graph(model, GraphResult::logits)).data, copy.data());
  std::vector<std::uint16_t> halves(count);
  model.weights["lm_head.weight"] = view_of(halves.data(), DType::f16, words.shape);
  EXPECT_EQ(head_of(build_graph(model, GraphResult::logits)).data, halves.data());
}

// The same file but for the tensor's name.
TEST(Head, IsTheTokensOwnAlsoUnderItsOwnName) {
  TemporaryFolder folder;
  std::string weights = read_bytes(family("qwen3") / "model.safetensors");
  const std::string name = "\"model.embed_tokens.weight\"", other = "\"lm_head.weight\"";
  const std::size_t at = weights.find(name);
  ASSERT_NE(at, std::string::npos);
  weights.replace(at, name.size(), other + std::string(name.size() - other.size(), ' '));
  write_bytes(folder / "model.safetensors", weights);
  std::filesystem::copy(family("qwen3") / "config.json", folder / "config.json");
  const Model model = read_model(folder.path());
  const Graph graph = build_graph(model, GraphResult::logits);
  EXPECT_EQ(head_of(graph).data, model.weights.at("lm_head.weight").data);
  EXPECT_EQ(graph.nodes.front().weights.at(0).tensor.data, head_of(graph).data);
  EXPECT_EQ(to_string(graph.nodes.front().weights.at(0).tensor.shape), "[800, 32]");
}

}  // namespace
}  // namespace stof
