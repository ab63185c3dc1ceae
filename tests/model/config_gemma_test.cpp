// SPDX-License-Identifier: Apache-2.0
// config.json of Gemma 2 and of Gemma 3's text models, as transformers reads them.
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

TEST_F(GemmaConfig, AnglesAreSaidByTheirOwnObjectAlone) {
  const auto global_of = [&](const json& scaling, const json& more = json::object()) {
    json changed = {{"rope_parameters", "absent"}, {"rope_theta", 5000}, {"rope_scaling", scaling}};
    changed.update(more);
    return read(changed).rotary[2];
  };
  const RotaryLayer own = global_of({{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 100.0}});
  EXPECT_EQ(own.theta, 100);
  EXPECT_EQ(text_of(own.scaling), "linear 4");
  const json yarn = {{"rope_type", "yarn"}, {"factor", 4.0}};
  EXPECT_EQ(global_of(yarn, {{"original_max_position_embeddings", 50}}).scaling.trained_positions, 200);
  EXPECT_ANY_THROW(global_of({{"type", "linear"}, {"factor", 4.0}}));
  expect({{"rope_parameters", "absent"}, {"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}},
         ErrorKind::unsupported, R"(: rope_scaling: 'type' is "linear"; accepted: 'rope_type' in its place)");
  expect({{"rope_parameters", "absent"}, {"rope_theta", 1.0}, {"rope_scaling", yarn}}, ErrorKind::bad_file,
         ": rope_scaling: 'rope_theta' is 1; accepted with yarn: more than 1");
}

TEST_F(GemmaConfig, WindowsReachFartherWhereBothSidesAreSeen) {
  EXPECT_EQ(rotary_text(read({{"use_bidirectional_attention", true}})), "5 300, 5 300, all 5000, 5 300");
  EXPECT_FALSE(read({{"use_bidirectional_attention", true}}).causal);
  EXPECT_TRUE(read({{"use_bidirectional_attention", nullptr}}).causal);
  EXPECT_EQ(rotary_text(read({{"is_causal", false}})), "10 300, 10 300, all 5000, 10 300");
  EXPECT_EQ(rotary_text(read({{"is_causal", false}, {"use_bidirectional_attention", true}})),
            "6 300, 6 300, all 5000, 6 300");
}

// As Gemma 2 does.
TEST_F(GemmaConfig, CapsScoresOfTheVocabulary) {
  EXPECT_EQ(read({{"final_logit_softcapping", 30.0}}).logit_cap, 30);
  EXPECT_EQ(read().logit_cap, std::nullopt);
  EXPECT_EQ(read({{"final_logit_softcapping", "absent"}}).logit_cap, std::nullopt);
  expect({{"final_logit_softcapping", 1e30}}, ErrorKind::bad_file,
         ": 'final_logit_softcapping' is 1e+30; accepted: null, or a number from 1e-18 to 1e18");
}

using Gemma2Config = ChangedConfig;

TEST_F(Gemma2Config, ReadsTheCheckpoint) {
  const ModelConfig config = read("gemma2");
  EXPECT_EQ(config.family, Family::gemma);
  EXPECT_EQ(config.architecture, "Gemma2ForCausalLM");
  EXPECT_EQ(config.activation, "gelu_new");
  EXPECT_EQ(std::tuple(config.heads, config.kv_heads, config.head_dim), std::tuple(4, 2, 16));
  EXPECT_EQ(std::tuple(config.score_divisor, config.score_cap, config.logit_cap),
            std::tuple(20, std::optional(2.0), std::optional(2.0)));
  EXPECT_EQ(rotary_text(config), "9 10000, all 10000, 9 10000, all 10000");
  EXPECT_TRUE(config.causal && config.tied_head && config.post_norms);
  EXPECT_FALSE(config.attention_bias || config.attention_out_bias || config.mlp_bias || config.head_norms);
}

TEST_F(Gemma2Config, HasTheDefaultsOfTransformers) {
  json unsaid;
  for (const char* key :
       {"num_key_value_heads", "head_dim", "hidden_activation", "layer_types", "rope_parameters", "rms_norm_eps",
        "query_pre_attn_scalar", "sliding_window", "tie_word_embeddings", "attention_bias", "attn_logit_softcapping",
        "final_logit_softcapping", "use_bidirectional_attention"})
    unsaid[key] = "absent";
  const ModelConfig config = read("gemma2", unsaid);
  EXPECT_EQ(std::tuple(config.kv_heads, config.head_dim, config.score_divisor), std::tuple(4, 256, 256));
  EXPECT_EQ(std::tuple(config.score_cap, config.logit_cap), std::tuple(std::optional(50.0), std::optional(30.0)));
  EXPECT_EQ(rotary_text(config), "4095 10000, all 10000, 4095 10000, all 10000");
  EXPECT_TRUE(config.tied_head);
  const ModelConfig other = read("gemma2", {{"attn_logit_softcapping", nullptr}, {"final_logit_softcapping", nullptr}});
  EXPECT_EQ(std::tuple(other.score_cap, other.logit_cap), std::tuple(std::nullopt, std::nullopt));
}

TEST_F(Gemma2Config, ReadsAnglesOfAllLayersAtOnce) {
  const json linear = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 700.0}};
  const ModelConfig config = read("gemma2", {{"rope_parameters", linear}});
  EXPECT_EQ(rotary_text(config), "9 700, all 700, 9 700, all 700");
  EXPECT_EQ(text_of(config.rotary[0].scaling), "linear 2");
  EXPECT_EQ(rotary_text(read("gemma2", {{"rope_parameters", "absent"}, {"rope_theta", 900}})),
            "9 900, all 900, 9 900, all 900");
  EXPECT_EQ(rotary_text(read("gemma2", {{"is_causal", false}})), "10 10000, all 10000, 10 10000, all 10000");
}

TEST_F(Gemma2Config, RefusesWhatIsNotComputed) {
  expect("gemma2", {{"use_bidirectional_attention", true}}, ErrorKind::unsupported,
         ": 'use_bidirectional_attention' is true; accepted: false of gemma2");
  expect("gemma2", {{"query_pre_attn_scalar", 1e-37}}, ErrorKind::bad_file,
         ": 'query_pre_attn_scalar' is 1e-37; accepted: a number from 1e-30 to 1e30");
  expect("gemma2", {{"num_key_value_heads", "absent"}, {"num_attention_heads", 6}}, ErrorKind::bad_file,
         ": 'num_key_value_heads' is not said, which is 4 then; accepted: a divisor of num_attention_heads, 6");
  expect("gemma2", {{"attn_logit_softcapping", 0}}, ErrorKind::bad_file,
         ": 'attn_logit_softcapping' is 0; accepted: a number above 0");
  expect("gemma2", {{"attn_logit_softcapping", 1e-20}}, ErrorKind::bad_file,
         ": 'attn_logit_softcapping' is 1e-20; accepted: null, or a number from 1e-18 to 1e18");
}

TEST_F(GemmaConfig, RefusesWhatIsNotComputed) {
  expect({{"attn_logit_softcapping", 50.0}}, ErrorKind::unsupported,
         ": 'attn_logit_softcapping' is 50.0; accepted: null");
  expect(
      {{"model_type", "gemma3"}}, ErrorKind::unsupported,
      ": 'model_type' is \"gemma3\"; accepted: bert, roberta, xlm-roberta, distilbert, longformer, gpt2, modernbert, "
      "llama, mistral, qwen2, qwen3, phi3, gemma2, gemma3_text, eurobert, nomic_bert, mpnet, t5, mt5, umt5");
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
  const WeightFiles files = read_weight_files(folder);
  const auto expect_norm = [&](const std::string& name, std::int64_t columns, double factor) {
    const Tensor stored = converted(files.tensors.tensors.at("model." + name), DType::f32);
    const TensorView& whole = model.weight(name, {columns});
    EXPECT_EQ(whole.dtype, DType::f32);
    for (std::int64_t i = 0; i < columns; ++i)
      EXPECT_NEAR(static_cast<const float*>(whole.data)[i], factor * (1 + double{stored.as<float>()[i]}), 1e-6) << name;
  };
  const double of_sums = 1 / std::sqrt(32.0), of_queries = std::sqrt(16.0 / 20);
  expect_norm("norm.weight", 32, 1);
  expect_norm("layers.1.input_layernorm.weight", 32, 1);
  expect_norm("layers.1.pre_feedforward_layernorm.weight", 32, 1);
  expect_norm("layers.1.post_attention_layernorm.weight", 32, of_sums);
  expect_norm("layers.1.post_feedforward_layernorm.weight", 32, of_sums);
  expect_norm("layers.1.self_attn.k_norm.weight", 16, 1);
  expect_norm("layers.1.self_attn.q_norm.weight", 16, of_queries);
}

}  // namespace
}  // namespace stof
