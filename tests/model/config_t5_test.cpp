// SPDX-License-Identifier: Apache-2.0
// config.json of MPNet and of T5's encoders, as transformers reads them.
#include <gtest/gtest.h>

#include "tests/model/changed_config.h"

namespace stof {
namespace {

using MpnetConfig = ChangedConfig;
using T5Config = ChangedConfig;

TEST_F(MpnetConfig, ReadsTheCheckpoint) {
  const ModelConfig config = read("mpnet");
  EXPECT_EQ(config.family, Family::mpnet);
  EXPECT_EQ(config.architecture, "MPNetForMaskedLM");
  EXPECT_EQ(std::tuple(config.first_position, config.max_positions, config.position_rows()), std::tuple(2, 300, 302));
  EXPECT_EQ(std::tuple(config.type_vocab_size, config.norm_epsilon), std::tuple(0, 1e-5));
  EXPECT_EQ(std::tuple(config.relative.buckets, config.relative.max_distance), std::tuple(32, 128));
  EXPECT_FALSE(config.relative.each_layer || config.unscaled_scores);
  EXPECT_EQ(read("mpnet", {{"layer_norm_eps", "absent"}}).norm_epsilon, 1e-12);
}

TEST_F(MpnetConfig, RefusesWhatTransformersDoesNotRead) {
  expect("mpnet", {{"relative_attention_num_buckets", 64}}, ErrorKind::unsupported,
         ": 'relative_attention_num_buckets' is 64; accepted: 32");
  expect("mpnet", {{"max_position_embeddings", 3}}, ErrorKind::bad_file,
         ": 'max_position_embeddings' is 3; accepted: at least 4");
}

TEST_F(T5Config, ReadsTheCheckpoints) {
  const ModelConfig config = read("t5");
  EXPECT_EQ(config.family, Family::t5);
  EXPECT_EQ(config.architecture, "T5ForConditionalGeneration");
  EXPECT_EQ(std::tuple(config.hidden_size, config.layers, config.heads, config.head_dim, config.intermediate_size),
            std::tuple(32, 3, 4, 12, 64));
  EXPECT_EQ(std::tuple(config.relative.buckets, config.relative.max_distance), std::tuple(16, 40));
  EXPECT_EQ(std::pair(config.activation, config.gated_mlp), std::pair(std::string("relu"), false));
  EXPECT_EQ(std::tuple(config.norm_epsilon, config.max_positions), std::tuple(1e-6, 1 << 17));
  EXPECT_TRUE(config.unscaled_scores);
  const ModelConfig gated = read("t5_gated");
  EXPECT_EQ(std::pair(gated.activation, gated.gated_mlp), std::pair(std::string("gelu_new"), true));
}

// What transformers writes besides goes first; "gated-gelu" alone is the one by tanh.
TEST_F(T5Config, KnowsFeedForwardPartsByOneName) {
  const auto fed = [&](const json& changed) {
    json all{{"dense_act_fn", "absent"}, {"is_gated_act", "absent"}};
    all.update(changed);
    const ModelConfig config = read("t5", all);
    return config.activation + (config.gated_mlp ? " gated" : "");
  };
  EXPECT_EQ(fed({{"feed_forward_proj", "absent"}}), "relu");
  EXPECT_EQ(fed({{"feed_forward_proj", "absent"}, {"model_type", "mt5"}, {"architectures", "absent"}}),
            "gelu_new gated");
  EXPECT_EQ(fed({{"feed_forward_proj", "gated-gelu"}}), "gelu_new gated");
  EXPECT_EQ(fed({{"feed_forward_proj", "gated-silu"}}), "silu gated");
  EXPECT_EQ(fed({{"feed_forward_proj", "gelu"}}), "gelu");
  EXPECT_EQ(fed({{"feed_forward_proj", "gated-gelu"}, {"dense_act_fn", "relu"}, {"is_gated_act", false}}), "relu");
  EXPECT_EQ(fed({{"feed_forward_proj", "gated-gelu"}, {"dense_act_fn", "gelu"}}), "gelu gated");
  expect("t5", {{"feed_forward_proj", "gated-gelu-new"}}, ErrorKind::unsupported,
         ": 'feed_forward_proj' is \"gated-gelu-new\"; accepted: an activation, or gated- and an activation");
}

TEST_F(T5Config, HasTheNamesAndDefaultsOfTransformers) {
  json unsaid;
  for (const char* key : {"d_kv", "relative_attention_num_buckets", "relative_attention_max_distance",
                          "layer_norm_epsilon", "architectures"})
    unsaid[key] = "absent";
  const ModelConfig config = read("t5", unsaid);
  EXPECT_EQ(std::tuple(config.head_dim, config.relative.buckets, config.relative.max_distance),
            std::tuple(64, 32, 128));
  EXPECT_EQ(std::pair(config.norm_epsilon, config.architecture), std::pair(1e-6, std::string("T5EncoderModel")));
  const ModelConfig other =
      read("t5", {{"d_model", "absent"}, {"hidden_size", 48}, {"d_kv", "absent"}, {"head_dim", 20}});
  EXPECT_EQ(std::tuple(other.hidden_size, other.head_dim), std::tuple(48, 20));
  EXPECT_TRUE(read("t5", {{"model_type", "umt5"}, {"architectures", "absent"}}).relative.each_layer);
  EXPECT_FALSE(config.relative.each_layer);
}

TEST_F(T5Config, RefusesWhatIsNotComputed) {
  expect("t5", {{"is_decoder", true}}, ErrorKind::unsupported, ": 'is_decoder' is true; accepted: false");
  expect("t5", {{"relative_attention_max_distance", 4}}, ErrorKind::bad_file,
         ": 'relative_attention_max_distance' is 4; accepted: 5..131072, above a quarter of "
         "relative_attention_num_buckets");
  expect("t5", {{"relative_attention_num_buckets", 2}}, ErrorKind::bad_file,
         ": 'relative_attention_num_buckets' is 2; accepted: an integer from 4 to 65536");
  expect("t5", {{"d_kv", 300}}, ErrorKind::bad_file, ": 'd_kv' is 300; accepted: an integer from 1 to 256");
  expect("t5", {{"head_dim", 20}}, ErrorKind::bad_file,
         ": 'd_kv' is 12, and 'head_dim' is 20; accepted: one of them, or the same twice");
  expect("t5", {{"dense_act_fn", "mish"}}, ErrorKind::unsupported,
         ": 'dense_act_fn' is \"mish\"; accepted: gelu, gelu_new, gelu_pytorch_tanh, relu, silu, swish");
  expect("t5", {{"feed_forward_proj", "mish"}, {"dense_act_fn", "absent"}}, ErrorKind::unsupported,
         ": 'feed_forward_proj' is \"mish\"; accepted: gelu, gelu_new, gelu_pytorch_tanh, relu, silu, swish");
}

}  // namespace
}  // namespace stof
