// SPDX-License-Identifier: Apache-2.0
// config.json of Nomic Embed, in the words of its first code, as the Hub has it, and of transformers.
#include <gtest/gtest.h>

#include "tests/model/changed_config.h"

namespace stof {
namespace {

class NomicConfig : public ChangedConfig {
 protected:
  ModelConfig read(const json& changed = json::object()) { return ChangedConfig::read("nomic", changed); }
  void expect(const json& changed, ErrorKind kind, const std::string& message) {
    ChangedConfig::expect("nomic", changed, kind, message);
  }
  // The sizes by their first names.
  json first_names(const json& more = json::object()) {
    json changed = {{"n_embd", 32}, {"n_layer", 2}, {"n_head", 4}, {"n_inner", 48}, {"n_positions", 8192}};
    for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                            "max_position_embeddings", "hidden_act", "layer_norm_eps", "head_dim", "rope_parameters"})
      changed[key] = "absent";
    changed.update(more);
    return changed;
  }
};

TEST_F(NomicConfig, ReadsTheCheckpoint) {
  const ModelConfig config = read();
  EXPECT_EQ(config.family, Family::nomic);
  EXPECT_EQ(config.architecture, "NomicBertForMaskedLM");
  EXPECT_EQ(std::tuple(config.hidden_size, config.layers, config.heads, config.intermediate_size, config.max_positions),
            std::tuple(32, 3, 4, 48, 200));
  EXPECT_EQ(std::tuple(config.activation, config.norm_epsilon, config.type_vocab_size),
            std::tuple(std::string("silu"), 1e-12, 2));
  EXPECT_EQ(rotary_text(config), "all 1000, all 1000, all 1000");
  EXPECT_FALSE(config.causal);
}

TEST_F(NomicConfig, ReadsTheWordsOfItsFirstCode) {
  const ModelConfig config = read(first_names({{"activation_function", "swiglu"},
                                               {"layer_norm_epsilon", 1e-5},
                                               {"rotary_emb_base", 500},
                                               {"rotary_emb_fraction", 1.0},
                                               {"rotary_scaling_factor", nullptr},
                                               {"prenorm", false},
                                               {"qkv_proj_bias", false},
                                               {"type_vocab_size", 0}}));
  EXPECT_EQ(std::tuple(config.hidden_size, config.layers, config.heads, config.intermediate_size, config.max_positions),
            std::tuple(32, 2, 4, 48, 8192));
  EXPECT_EQ(std::tuple(config.activation, config.norm_epsilon, config.type_vocab_size),
            std::tuple(std::string("silu"), 1e-5, 0));
  EXPECT_EQ(rotary_text(config), "all 500, all 500");
  EXPECT_EQ(rotary_text(read(first_names())), "all 1000, all 1000");
  EXPECT_EQ(read(first_names({{"activation_function", "geglu"}})).activation, "gelu");
}

// 8/3 of 96 columns are 256, of 32 less than that, and of 98 more.
TEST_F(NomicConfig, TakesAWidthThatIsNull) {
  const auto width = [&](std::int64_t columns) {
    return read(first_names({{"n_inner", nullptr}, {"n_embd", columns}, {"n_head", 1}})).intermediate_size;
  };
  EXPECT_EQ(std::tuple(width(32), width(96), width(98)), std::tuple(256, 256, 512));
  EXPECT_EQ(read({{"n_inner", nullptr}}).intermediate_size, 48);  // it has the other name, too
  expect(first_names({{"n_inner", "absent"}}), ErrorKind::bad_file, ": 'n_inner' is missing");
  expect({{"intermediate_size", nullptr}}, ErrorKind::bad_file,
         ": 'intermediate_size' is null; accepted: an integer from 1 to 2147483647");
  expect(first_names({{"n_inner", nullptr}, {"n_embd", 2'000'000'000}}), ErrorKind::bad_file,
         ": 'n_inner' is null; accepted: an integer from 1 to 2147483647");
}

TEST_F(NomicConfig, RefusesWhatIsNotComputed) {
  for (const char* key : {"causal", "mlp_fc1_bias", "mlp_fc2_bias", "parallel_block", "parallel_block_tied_norm",
                          "prenorm", "qkv_proj_bias", "rotary_emb_interleaved", "use_rms_norm"})
    expect({{key, true}}, ErrorKind::unsupported, fmt::format(": '{}' is true; accepted: false", key));
  for (const char* key : {"num_experts", "moe_every_n_layers", "rotary_emb_scale_base"})
    expect({{key, 8}}, ErrorKind::unsupported, fmt::format(": '{}' is 8; accepted: null", key));
  expect({{"rotary_scaling_factor", 2.0}}, ErrorKind::unsupported, ": 'rotary_scaling_factor' is 2.0; accepted: null");
  expect({{"rotary_emb_fraction", 0.5}}, ErrorKind::unsupported, ": 'rotary_emb_fraction' is 0.5; accepted: 1");
  expect({{"activation_function", "gelu"}}, ErrorKind::unsupported,
         ": 'activation_function' is \"gelu\"; accepted: swiglu, geglu");
  expect({{"head_dim", 16}}, ErrorKind::unsupported, ": 'head_dim' is 16; accepted: 8, or null");
  expect({{"num_key_value_heads", 2}}, ErrorKind::unsupported, ": 'num_key_value_heads' is 2; accepted: 4, or null");
  expect({{"n_embd", 64}}, ErrorKind::bad_file,
         ": 'n_embd' is 64, and 'hidden_size' is 32; accepted: one of them, or the same twice");
  EXPECT_THROW(read({{"architectures", {"NomicBertForPreTraining"}}}), Error);
}

// Under the names that the file has.
TEST_F(NomicConfig, RefusesSizesThatDoNotFit) {
  expect({{"num_attention_heads", 5}}, ErrorKind::bad_file,
         ": 'hidden_size' is 32; accepted: an even number up to 256 for each of num_attention_heads, 5");
  expect(first_names({{"n_head", 5}}), ErrorKind::bad_file,
         ": 'n_embd' is 32; accepted: an even number up to 256 for each of n_head, 5");
  expect(first_names({{"n_embd", 28}}), ErrorKind::bad_file,
         ": 'n_embd' is 28; accepted: an even number up to 256 for each of n_head, 4");
  expect(first_names({{"n_layer", 20000}}), ErrorKind::bad_file, ": 'n_layer' is 20000; accepted: 0 to 10000");
  expect(first_names({{"n_positions", (1 << 20) + 1}}), ErrorKind::bad_file,
         ": 'n_positions' is 1048577; accepted: 2 to 1048576");
}

// Transformers looks at its own alone.
TEST_F(NomicConfig, RefusesTwoGatesThatDiffer) {
  expect(
      {{"activation_function", "geglu"}}, ErrorKind::bad_file,
      ": 'activation_function' is \"geglu\", and 'hidden_act' is \"silu\"; accepted: one of them, or the same twice");
  expect(
      {{"activation_function", "swiglu"}, {"hidden_act", "gelu"}}, ErrorKind::bad_file,
      ": 'activation_function' is \"swiglu\", and 'hidden_act' is \"gelu\"; accepted: one of them, or the same twice");
  EXPECT_EQ(read({{"activation_function", "geglu"}, {"hidden_act", "gelu"}}).activation, "gelu");
  EXPECT_EQ(read({{"hidden_act", "gelu_new"}}).activation, "gelu_new");
}

}  // namespace
}  // namespace stof
