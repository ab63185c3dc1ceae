// SPDX-License-Identifier: Apache-2.0
// Tensors of Nomic Embed by either of their names.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>

#include "src/model/model.h"
#include "stof/session.h"
#include "tests/runtime/families.h"
#include "tests/runtime/random_prompts.h"

namespace stof {
namespace {

// As transformers writes them where it is asked for its own (save_original_format=False).
constexpr std::array<std::array<std::string_view, 2>, 8> kRenamed{{{"encoder.layers", "layers"},
                                                                   {"emb_ln", "embeddings.LayerNorm"},
                                                                   {"attn.out_proj", "self_attn.o_proj"},
                                                                   {"fc11", "up_proj"},
                                                                   {"fc12", "gate_proj"},
                                                                   {"fc2", "down_proj"},
                                                                   {"norm1", "post_attention_layernorm"},
                                                                   {"norm2", "post_mlp_layernorm"}}};

void rename(std::string& name, std::string_view first, std::string_view other) {
  if (const std::size_t at = name.find(first); at != std::string::npos) name.replace(at, first.size(), other);
}

// q, k and v are tensors of their own there.
void split(const std::string& name, const TensorView& qkv, Model& into) {
  const std::int64_t rows = qkv.dim(0) / 3;
  auto* values = qkv.as<std::byte>();
  for (const std::string_view part : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}) {
    std::string own = name;
    rename(own, "attn.Wqkv", part);
    into.weights.emplace(own, view_of(values, qkv.dtype, {rows, qkv.dim(1)}));
    values += static_cast<std::size_t>(rows * qkv.dim(1)) * size_of(qkv.dtype);
  }
}

Model by_names_of_transformers(const Model& model) {
  Model result = model;
  result.weights.clear();
  for (const auto& [name, tensor] : model.weights) {
    std::string own = name;
    for (const auto& [first, other] : kRenamed) rename(own, first, other);
    if (own.find("attn.Wqkv") == std::string::npos) result.weights.emplace(own, tensor);
    else split(own, tensor, result);
  }
  return result;
}

TEST(NomicNames, MayBeThoseOfTransformers) {
  const Model first = read_model(family_folder("nomic")), other = by_names_of_transformers(first);
  EXPECT_TRUE(other.has("layers.2.self_attn.v_proj.weight") && !other.has("encoder.layers.0.norm1.weight"));
  const TokenBatch batch = random_prompts({7, 33, 1}, 1);
  const Tensor want = Session(first, {.device = "cpu"}).run(batch), got = Session(other, {.device = "cpu"}).run(batch);
  ASSERT_EQ(got.shape(), want.shape());
  for (std::int64_t i = 0; i < want.size(); ++i) ASSERT_EQ(got.as<float>()[i], want.as<float>()[i]) << i;
}

}  // namespace
}  // namespace stof
