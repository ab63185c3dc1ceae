// SPDX-License-Identifier: Apache-2.0
// config.json of Gemma 3's text models, as transformers reads it.
#include <gtest/gtest.h>

#include <cmath>

#include "src/model/model.h"
#include "src/model/weight_files.h"
#include "src/tensor/convert.h"
#include "tests/model/changed_config.h"
#include "tests/source_folder.h"

namespace stof {
namespace {

class GemmaConfig : public ChangedConfig {
 protected:
  ModelConfig read(const json& changed = json::object()) { return ChangedConfig::read("gemma3", changed); }
  void expect(const json& changed, ErrorKind kind, const std::string& message) {
    ChangedConfig::expect("gemma3", changed, kind, message);
  }
};

TEST_F(GemmaConfig, ReadsTheCheckpoint) {
  const ModelConfig config = read();
  EXPECT_EQ(config.family, Family::gemma);
  EXPECT_EQ(config.architecture, "Gemma3ForCausalLM");
  EXPECT_EQ(config.activation, "gelu_new");
  EXPECT_EQ(std::tuple(config.heads, config.kv_heads, config.head_dim), std::tuple(4, 2, 16));
  EXPECT_EQ(config.score_divisor, 20);
  EXPECT_EQ(rotary_text(config), "9 300, 9 300, all 5000, 9 300");
  EXPECT_EQ(text_of(config.rotary[2].scaling), "linear 2");
  EXPECT_EQ(text_of(config.rotary[0].scaling), "");
  EXPECT_TRUE(config.causal && config.tied_head && config.head_norms && config.post_norms);
  EXPECT_FALSE(config.attention_bias || config.attention_out_bias || config.mlp_bias);
}

TEST_F(GemmaConfig, HasTheDefaultsOfTransformers) {
  json unsaid;
  for (const char* key :
       {"num_key_value_heads", "head_dim", "hidden_activation", "layer_types", "rope_parameters", "rms_norm_eps",
        "query_pre_attn_scalar", "sliding_window", "tie_word_embeddings", "attention_bias"})
    unsaid[key] = "absent";
  unsaid["num_hidden_layers"] = 7;
  const ModelConfig config = read(unsaid);
  EXPECT_EQ(std::tuple(config.kv_heads, config.head_dim, config.score_divisor), std::tuple(4, 256, 256));
  EXPECT_EQ(rotary_text(config), "4095 10000, 4095 10000, 4095 10000, 4095 10000, 4095 10000, all 1000000, 4095 10000");
  EXPECT_EQ(config.norm_epsilon, 1e-6);
  EXPECT_TRUE(config.tied_head);
}

// As the files on the Hub have it.
TEST_F(GemmaConfig, ReadsTheWordsOfTransformers4) {
  const ModelConfig config = read({{"layer_types", "absent"},
                                   {"rope_parameters", "absent"},
                                   {"sliding_window_pattern", 2},
                                   {"rope_theta", 7000},
                                   {"rope_local_base_freq", 200},
                                   {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}});
  EXPECT_EQ(rotary_text(config), "9 200, all 7000, 9 200, all 7000");
  EXPECT_EQ(text_of(config.rotary[1].scaling), "linear 8");
  EXPECT_EQ(text_of(config.rotary[0].scaling), "");
}

TEST_F(GemmaConfig, WindowsReachFartherWhereBothSidesAreSeen) {
  EXPECT_EQ(rotary_text(read({{"use_bidirectional_attention", true}})), "5 300, 5 300, all 5000, 5 300");
  EXPECT_FALSE(read({{"use_bidirectional_attention", true}}).causal);
  EXPECT_TRUE(read({{"use_bidirectional_attention", nullptr}}).causal);
  EXPECT_EQ(rotary_text(read({{"is_causal", false}})), "10 300, 10 300, all 5000, 10 300");
}

TEST_F(GemmaConfig, RefusesWhatIsNotComputed) {
  expect({{"attn_logit_softcapping", 50.0}}, ErrorKind::unsupported,
         ": 'attn_logit_softcapping' is 50.0; accepted: null");
  expect({{"final_logit_softcapping", 30.0}}, ErrorKind::unsupported,
         ": 'final_logit_softcapping' is 30.0; accepted: null");
  expect({{"model_type", "gemma3"}}, ErrorKind::unsupported,
         ": 'model_type' is \"gemma3\"; accepted: bert, roberta, distilbert, longformer, gpt2, modernbert, llama, "
         "mistral, qwen2, qwen3, gemma3_text");
  expect({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}}, ErrorKind::unsupported,
         ": 'rope_scaling' is {\"factor\":8.0,\"rope_type\":\"linear\"}; accepted: null beside 'rope_parameters'");
  expect({{"sliding_window", 0}}, ErrorKind::bad_file,
         ": 'sliding_window' is 0; accepted: an integer from 1 to 2147483647");
  expect({{"query_pre_attn_scalar", 0}}, ErrorKind::bad_file,
         ": 'query_pre_attn_scalar' is 0; accepted: a number above 0");
  expect({{"rope_parameters", {{"chunked_attention", json::object()}}}}, ErrorKind::unsupported,
         ": rope_parameters: 'chunked_attention' is not understood; accepted: full_attention, sliding_attention");
}

TEST(GemmaNorms, AreWholeWhenTheModelIsRead) {
  const std::filesystem::path folder = source_folder() / "tests/data/families/gemma3";
  const Model model = read_model(folder);
  const Tensor stored = converted(read_weight_files(folder).tensors.tensors.at("model.norm.weight"), DType::f32);
  const TensorView& whole = model.weight("norm.weight", {32});
  EXPECT_EQ(whole.dtype, DType::f32);
  for (std::int64_t i = 0; i < 32; ++i)
    EXPECT_FLOAT_EQ(static_cast<const float*>(whole.data)[i], 1 + stored.as<float>()[i]);
}

}  // namespace
}  // namespace stof
