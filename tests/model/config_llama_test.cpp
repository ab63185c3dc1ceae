// SPDX-License-Identifier: Apache-2.0
#include "src/model/config_llama.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/model/changed_config.h"

namespace stof {
namespace {

using nlohmann::json;

using LlamaConfig = ChangedConfig;

TEST_F(LlamaConfig, ReadsTheFamilies) {
  const ModelConfig llama = read("llama");
  EXPECT_EQ(llama.family, Family::llama);
  EXPECT_EQ(llama.architecture, "LlamaForCausalLM");
  EXPECT_EQ(llama.activation, "silu");
  EXPECT_EQ(std::tuple(llama.heads, llama.kv_heads, llama.head_dim), std::tuple(4, 2, 16));
  EXPECT_EQ(rotary_text(llama), "all 500, all 500, all 500");
  EXPECT_EQ(text_of(llama.rotary[2].scaling), "llama3 8 64 1 4");
  EXPECT_FALSE(llama.attention_bias || llama.attention_out_bias || llama.mlp_bias || llama.head_norms ||
               llama.tied_head);
  const ModelConfig biased = read("llama_with_biases");
  EXPECT_TRUE(biased.attention_bias && biased.attention_out_bias && biased.mlp_bias);
  const ModelConfig mistral = read("mistral");
  EXPECT_EQ(std::tuple(mistral.heads, mistral.kv_heads, mistral.head_dim), std::tuple(4, 1, 12));
  EXPECT_EQ(rotary_text(mistral), "9 10000, 9 10000, 9 10000");
  const ModelConfig qwen2 = read("qwen2");
  EXPECT_TRUE(qwen2.attention_bias && qwen2.tied_head && !qwen2.attention_out_bias);
  EXPECT_EQ(rotary_text(qwen2), "all 1000, 15 1000, 15 1000");
  const ModelConfig qwen3 = read("qwen3");
  EXPECT_TRUE(qwen3.head_norms && !qwen3.attention_bias);
  EXPECT_EQ(std::tuple(qwen3.heads, qwen3.kv_heads, qwen3.head_dim), std::tuple(4, 2, 20));
}

TEST_F(LlamaConfig, ReadsPhi3AndEuroBert) {
  const ModelConfig phi = read("phi3");
  EXPECT_EQ(std::tuple(phi.family, phi.architecture), std::tuple(Family::llama, std::string("Phi3ForCausalLM")));
  EXPECT_TRUE(phi.stacked_weights && phi.causal);
  EXPECT_FALSE(phi.attention_bias || phi.mlp_bias || phi.head_norms || phi.tied_head);
  EXPECT_EQ(std::tuple(phi.heads, phi.kv_heads, phi.head_dim), std::tuple(4, 2, 8));
  EXPECT_EQ(rotary_text(phi), "11 10000, 11 10000, 11 10000");
  const json unsaid = {{"sliding_window", "absent"}, {"num_key_value_heads", "absent"}, {"rms_norm_eps", "absent"}};
  EXPECT_EQ(rotary_text(read("phi3", unsaid)), "all 10000, all 10000, all 10000");
  EXPECT_EQ(std::tuple(read("phi3", unsaid).kv_heads, read("phi3", unsaid).norm_epsilon), std::tuple(4, 1e-5));
  const ModelConfig euro = read("eurobert");
  EXPECT_EQ(std::tuple(euro.family, euro.architecture),
            std::tuple(Family::eurobert, std::string("EuroBertForMaskedLM")));
  EXPECT_EQ(std::tuple(euro.heads, euro.kv_heads, euro.head_dim, euro.norm_epsilon), std::tuple(4, 2, 12, 1e-5));
  EXPECT_EQ(rotary_text(euro), "all 2500, all 2500, all 2500");
  EXPECT_TRUE(euro.mlp_bias && !euro.attention_bias && !euro.causal && !euro.stacked_weights);
  EXPECT_EQ(read("eurobert", {{"rms_norm_eps", "absent"}}).norm_epsilon, 1e-5);
  const json biased = {{"attention_bias", true}, {"mlp_bias", "absent"}};
  EXPECT_TRUE(read("eurobert", biased).attention_out_bias && !read("eurobert", biased).mlp_bias);
}

// What the parameters say comes before what stands around them, and 128 * 0.3 columns are 38.
TEST_F(LlamaConfig, ReadsHowManyColumnsOfAHeadTurn) {
  const auto pairs = [&](const json& changed, const char* family = "phi4") {
    return read(family, changed).rotary[2].pairs;
  };
  EXPECT_EQ(pairs({}), 6);
  EXPECT_EQ(pairs({}, "phi3"), std::nullopt);
  EXPECT_EQ(pairs({{"rope_parameters", {{"partial_rotary_factor", 0.5}}}}), 4);
  EXPECT_EQ(pairs({{"rope_parameters", {{"partial_rotary_factor", 1}}}}), std::nullopt);
  EXPECT_EQ(pairs({{"rope_parameters", {{"rope_theta", 100}}}}), 6);
  EXPECT_EQ(pairs({{"rope_parameters", "absent"}, {"partial_rotary_factor", 0.25}}), 2);
  EXPECT_EQ(pairs({{"head_dim", 128}, {"rope_parameters", {{"partial_rotary_factor", 0.3}}}}), 19);
  for (const double factor : {0.45, 0.1, 1.1, 1e30})
    expect("phi4", {{"rope_parameters", {{"partial_rotary_factor", factor}}}}, ErrorKind::unsupported,
           fmt::format(": rope_parameters: 'partial_rotary_factor' is {}; accepted: what makes an even number of "
                       "columns, from 2 to 16, of a head's 16",
                       json(factor).dump()));
  expect(
      "phi3", {{"rope_parameters", "absent"}, {"partial_rotary_factor", 0.4}}, ErrorKind::unsupported,
      ": 'partial_rotary_factor' is 0.4; accepted: what makes an even number of columns, from 2 to 8, of a head's 8");
}

// In the words of all times. How long the texts of the training were stands around the parameters, and 4096 where it
// does not.
TEST_F(LlamaConfig, ReadsAnglesOfLongerTexts) {
  const json factors = {{"short_factor", {1, 1.5, 2, 2, 2, 3}}, {"long_factor", {1, 2, 3, 4, 5, 6.25}}};
  const auto scaling = [&](const json& more, const json& around = json::object()) {
    json parameters = factors, changed = around;
    parameters.update(more);
    changed["rope_scaling"] = parameters;
    return read("phi4", changed).rotary[1].scaling;
  };
  const RotaryScaling fixture = read("phi4").rotary[2].scaling;
  EXPECT_EQ(std::tuple(fixture.kind, fixture.trained_positions, fixture.long_after()),
            std::tuple(RotaryScaling::Kind::longrope, 20., 20));
  EXPECT_EQ(read("phi4").long_after(), 20);
  EXPECT_EQ(read("phi3").long_after(), 0);
  EXPECT_NEAR(fixture.amplitude, std::sqrt(1 + std::log(10) / std::log(20)), 1e-15);
  for (const json& type :
       {json{{"type", "su"}}, json{{"rope_type", "yarn"}, {"type", "linear"}}, json{{"type", "longrope"}}}) {
    const RotaryScaling read = scaling(type);
    EXPECT_EQ(read.short_factors, (std::vector{1.f, 1.5f, 2.f, 2.f, 2.f, 3.f}));
    EXPECT_EQ(read.long_factors, (std::vector{1.f, 2.f, 3.f, 4.f, 5.f, 6.25f}));
    EXPECT_EQ(text_of(read), text_of(scaling({{"type", "longrope"}})));
  }
  const json longrope = {{"type", "longrope"}, {"original_max_position_embeddings", 64}};
  EXPECT_EQ(scaling(longrope).trained_positions, 20);
  EXPECT_EQ(scaling(longrope, {{"original_max_position_embeddings", "absent"}}).trained_positions, 4096);
  EXPECT_EQ(scaling(longrope, {{"max_position_embeddings", 20}}).amplitude, 1);
  EXPECT_EQ(scaling({{"type", "longrope"}, {"attention_factor", 1.25}}).amplitude, 1.25);
  EXPECT_EQ(scaling({{"type", "longrope"}, {"factor", 400}}).amplitude, std::sqrt(1 + std::log(400) / std::log(20)));
  EXPECT_EQ(scaling({{"type", "longrope"}, {"factor", 0.5}}).amplitude, 1);
  EXPECT_NE(text_of(scaling(longrope)), text_of(scaling({{"type", "longrope"}, {"long_factor", {1, 2, 3, 4, 5, 6}}})));
}

TEST_F(LlamaConfig, RefusesAnglesOfLongerTextsThatAreNotThose) {
  const json parameters = {
      {"rope_type", "longrope"}, {"short_factor", {1, 1, 1, 1, 1, 1}}, {"long_factor", {1, 1, 1, 1, 1, 1}}};
  const auto expect_of = [&](const char* key, const json& value, ErrorKind kind, const std::string& message) {
    json changed = parameters;
    if (value == "absent") changed.erase(key);
    else changed[key] = value;
    expect("phi4", {{"rope_parameters", changed}}, kind, ": rope_parameters: " + message);
  };
  const std::string accepted = "; accepted: an array of a number above 0 for each of 6 pairs of columns that turn";
  for (const char* key : {"short_factor", "long_factor"}) {
    expect_of(key, "absent", ErrorKind::bad_file, fmt::format("'{}' is missing", key));
    for (const json& value : {json(2), json{1, 1, 1, 1, 1}, json{1, 1, 1, 1, 1, 0}, json{1, 1, 1, 1, 1, "1"},
                              json{1, 1, 1, 1, 1, 1e300}, json{1, 1, 1, 1, 1, nullptr}})
      expect_of(key, value, ErrorKind::bad_file, fmt::format("'{}' is {}{}", key, value.dump(), accepted));
  }
  expect_of("attention_factor", 1001, ErrorKind::bad_file, "'attention_factor' is 1001; accepted: at most 1000");
  expect_of("factor", 0, ErrorKind::bad_file, "'factor' is 0; accepted: a number above 0");
  EXPECT_THROW(read("phi4", {{"rope_parameters", {{"rope_type", "longrope"}, {"long_mscale", 1}}}}), Error);
  expect("phi4", {{"original_max_position_embeddings", 1}}, ErrorKind::bad_file,
         ": 'original_max_position_embeddings' is 1; accepted: an integer from 2 to 2147483647");
  expect("llama", {{"rope_parameters", parameters}}, ErrorKind::unsupported,
         R"(: rope_parameters: 'rope_type' is "longrope"; accepted: "default", "linear", "llama3", "yarn")");
}

TEST_F(LlamaConfig, RefusesAnglesAndWindowsThatPhi3AndEuroBertHaveNot) {
  expect(
      "phi3", {{"rope_parameters", {{"rope_type", "linear"}, {"factor", 4}}}}, ErrorKind::unsupported,
      ": rope_parameters: 'rope_type' is \"linear\"; accepted: default, longrope, or its older names su and yarn, of "
      "phi3");
  const json whole = {"full_attention", "full_attention", "full_attention"},
             windowed = {"full_attention", "sliding_attention", "full_attention"};
  expect(
      "phi3", {{"layer_types", whole}}, ErrorKind::unsupported,
      R"(: 'layer_types' is ["full_attention","full_attention","full_attention"]; accepted: null, all layers of phi3 see alike)");
  expect("eurobert", {{"layer_types", windowed}}, ErrorKind::unsupported,
         R"(: 'layer_types' has "sliding_attention"; accepted of eurobert: "full_attention")");
  expect("eurobert", {{"is_causal", true}}, ErrorKind::unsupported,
         ": 'is_causal' is true; accepted: false for an encoder");
}

// Where newer files have rope_parameters, layer_types and every key, older ones leave their defaults out.
TEST_F(LlamaConfig, ReadsTheWordsOfBothVersions) {
  const json of_4 = {{"rope_parameters", "absent"},
                     {"rope_theta", 5e5},
                     {"rope_scaling", {{"type", "linear"}, {"factor", 2}}},
                     {"head_dim", "absent"},
                     {"num_key_value_heads", "absent"}};
  const ModelConfig llama = read("llama", of_4);
  EXPECT_EQ(std::tuple(llama.kv_heads, llama.head_dim), std::tuple(4, 8));
  EXPECT_EQ(rotary_text(llama), "all 500000, all 500000, all 500000");
  EXPECT_EQ(text_of(llama.rotary[0].scaling), "linear 2");
  const json plain = {{"rope_parameters", nullptr}, {"rope_scaling", nullptr}};
  EXPECT_EQ(read("llama", plain).rotary[0].theta, 1e4);
  EXPECT_EQ(text_of(read("llama", plain).rotary[0].scaling), "");
  EXPECT_EQ(rotary_text(read("mistral", {{"sliding_window", nullptr}})), "all 10000, all 10000, all 10000");
  EXPECT_EQ(rotary_text(read("mistral", {{"sliding_window", "absent"}})), "4095 10000, 4095 10000, 4095 10000");
  EXPECT_EQ(read("mistral", {{"num_attention_heads", 8}, {"num_key_value_heads", "absent"}}).kv_heads, 8);
  EXPECT_EQ(rotary_text(read("qwen2", {{"layer_types", "absent"}, {"max_window_layers", 2}})),
            "all 1000, all 1000, 15 1000");
  EXPECT_EQ(rotary_text(read("qwen2", {{"use_sliding_window", false}, {"layer_types", "absent"}})),
            "all 1000, all 1000, all 1000");
  EXPECT_EQ(read("qwen3", {{"head_dim", "absent"}}).head_dim, 128);
  json yarn = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 50}};
  EXPECT_EQ(text_of(read("qwen2", {{"rope_scaling", yarn}, {"rope_parameters", "absent"}}).rotary[0].scaling),
            text_of(read("qwen2").rotary[0].scaling));
  // What stands beside the others comes first, and rope_scaling before rope_parameters.
  EXPECT_EQ(read("llama", {{"original_max_position_embeddings", 100}}).rotary[0].scaling.trained_positions, 100);
  const json both = {{"rope_scaling", {{"type", "linear"}, {"factor", 3}}}};
  EXPECT_EQ(text_of(read("qwen2", both).rotary[0].scaling), "linear 3");
  EXPECT_EQ(read("qwen2", both).rotary[0].theta, 1e4);
  yarn["attention_factor"] = 1.25, yarn["beta_fast"] = 20, yarn["beta_slow"] = 2, yarn["truncate"] = false;
  EXPECT_EQ(text_of(read("qwen2", {{"rope_parameters", yarn}}).rotary[0].scaling), "yarn 4 50 2 20 1.25 between");
}

// Transformers takes files of type mistral with layer_types for Ministral's, and the others do not look at them.
TEST_F(LlamaConfig, MistralHasWindowsByLayer) {
  const json mixed = {"full_attention", "sliding_attention", "full_attention"};
  const json whole = {"full_attention", "full_attention", "full_attention"};
  EXPECT_EQ(rotary_text(read("mistral", {{"layer_types", mixed}})), "all 10000, 9 10000, all 10000");
  EXPECT_EQ(rotary_text(read("mistral", {{"layer_types", whole}, {"sliding_window", nullptr}})),
            "all 10000, all 10000, all 10000");
  EXPECT_EQ(rotary_text(read("mistral", {{"layer_types", nullptr}})), "9 10000, 9 10000, 9 10000");
  expect("mistral", {{"layer_types", mixed}, {"sliding_window", nullptr}}, ErrorKind::bad_file,
         R"(: 'sliding_window' is null; accepted: a number where layer_types has "sliding_attention")");
  expect("llama", {{"layer_types", mixed}}, ErrorKind::unsupported,
         R"(: 'layer_types' has "sliding_attention"; accepted of llama: "full_attention")");
  EXPECT_EQ(rotary_text(read("llama", {{"layer_types", whole}})), "all 500, all 500, all 500");
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3"}) {
    expect(family, {{"layer_types", "full_attention"}}, ErrorKind::bad_file,
           R"(: 'layer_types' is "full_attention"; accepted: an array of num_hidden_layers strings, 3)");
    expect(family, {{"layer_types", {"full_attention", 1, "full_attention"}}}, ErrorKind::unsupported,
           R"(: 'layer_types' has 1; accepted: "full_attention", "sliding_attention")");
  }
}

TEST_F(LlamaConfig, SeesBothSidesWhereItSaysSo) {
  for (const char* family : {"gpt2", "llama", "mistral", "qwen2", "qwen3", "phi3"}) {
    EXPECT_TRUE(read(family).causal) << family;
    EXPECT_TRUE(read(family, {{"is_causal", true}}).causal) << family;
    EXPECT_FALSE(read(family, {{"is_causal", false}}).causal) << family;
    EXPECT_FALSE(read(family, {{"is_causal", nullptr}}).causal) << family;
  }
  // Transformers does not count the query itself there.
  EXPECT_EQ(rotary_text(read("mistral", {{"is_causal", false}})), "10 10000, 10 10000, 10 10000");
  EXPECT_EQ(rotary_text(read("qwen2", {{"is_causal", false}})), "all 1000, 16 1000, 16 1000");
  const json of_default = {{"is_causal", false}, {"sliding_window", "absent"}};
  EXPECT_EQ(rotary_text(read("mistral", of_default)), "4096 10000, 4096 10000, 4096 10000");
}

TEST_F(LlamaConfig, RefusesWindowsThatContradictEachOther) {
  const std::string both = R"(: 'layer_types' has "sliding_attention" and 'use_sliding_window' is not true; accepted: )"
                           "one of both";
  expect("qwen2", {{"use_sliding_window", false}}, ErrorKind::unsupported, both);
  expect("qwen2", {{"use_sliding_window", "absent"}}, ErrorKind::unsupported, both);
  expect("qwen2", {{"sliding_window", nullptr}}, ErrorKind::bad_file,
         R"(: 'sliding_window' is null; accepted: a number where layer_types has "sliding_attention")");
  const json whole = {"full_attention", "full_attention", "full_attention"};
  EXPECT_EQ(rotary_text(read("qwen2", {{"use_sliding_window", false}, {"layer_types", whole}})),
            "all 1000, all 1000, all 1000");
}

TEST_F(LlamaConfig, RefusesWhatIsNotUnderstood) {
  expect("llama", {{"num_key_value_heads", 3}}, ErrorKind::bad_file,
         ": 'num_key_value_heads' is 3; accepted: a divisor of num_attention_heads, 4");
  expect("llama", {{"head_dim", 7}}, ErrorKind::unsupported,
         ": heads of 7 columns; accepted: an even number up to 256");
  expect("qwen3", {{"head_dim", 512}}, ErrorKind::unsupported,
         ": heads of 512 columns; accepted: an even number up to 256");
  expect("llama", {{"head_dim", nullptr}, {"hidden_size", 30}}, ErrorKind::bad_file,
         ": 'hidden_size' is 30; accepted: a multiple of num_attention_heads, 4");
  const auto rope = [](json parameters) { return json{{"rope_parameters", std::move(parameters)}}; };
  expect("llama", rope({{"rope_type", "dynamic"}, {"factor", 2}}), ErrorKind::unsupported,
         R"(: rope_parameters: 'rope_type' is "dynamic"; accepted: "default", "linear", "llama3", "yarn")");
  expect("llama", rope({{"rope_type", "linear"}, {"factor", 0.5}}), ErrorKind::bad_file,
         ": rope_parameters: 'factor' is 0.5; accepted: a number of at least 1");
  expect("llama", rope({{"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 4}, {"high_freq_factor", 4}}),
         ErrorKind::bad_file, ": rope_parameters: 'high_freq_factor' is 4; accepted: more than low_freq_factor, 4");
  expect("qwen2", rope({{"rope_type", "yarn"}, {"factor", 4}, {"beta_fast", 1}, {"beta_slow", 2}}), ErrorKind::bad_file,
         ": rope_parameters: 'beta_fast' is 1; accepted: at least beta_slow, 2");
  EXPECT_THROW(read("qwen2", rope({{"rope_type", "yarn"}, {"factor", 4}, {"mscale", 1}})), Error);
  expect("qwen2", rope({{"rope_type", "yarn"}, {"factor", 4}, {"rope_theta", 1}}), ErrorKind::bad_file,
         ": 'rope_theta' is 1; accepted with yarn: more than 1");
  expect("qwen2", rope({{"rope_type", "yarn"}, {"factor", 4}, {"attention_factor", 3e38}}), ErrorKind::bad_file,
         ": rope_parameters: 'attention_factor' is 3e+38; accepted: at most 1000");
  expect("llama", {{"rope_theta", nullptr}}, ErrorKind::bad_file, ": 'rope_theta' is null; accepted: a number above 0");
  expect("llama", rope({{"rope_type", "default"}, {"rope_theta", nullptr}}), ErrorKind::bad_file,
         ": rope_parameters: 'rope_theta' is null; accepted: a number above 0");
  EXPECT_THROW(read("llama", rope({{"rope_type", "default"}, {"partial_rotary_factor", 0.5}})), Error);
  EXPECT_THROW(read("llama", rope({{"rope_type", "linear"}, {"factor", 2}, {"partial_rotary_factor", 0.5}})), Error);
  EXPECT_EQ(text_of(read("llama", rope({{"rope_type", "linear"}, {"factor", 2}, {"partial_rotary_factor", 1.0}}))
                        .rotary[0]
                        .scaling),
            "linear 2");
  expect("qwen2", {{"layer_types", {"full_attention"}}}, ErrorKind::bad_file,
         R"(: 'layer_types' is ["full_attention"]; accepted: an array of num_hidden_layers strings, 3)");
  EXPECT_THROW(read("llama", {{"max_position_embeddings", (1 << 20) + 1}}), Error);
  EXPECT_THROW(read("llama", {{"architectures", {"LlamaForQuestionAnswering"}}}), Error);
}

}  // namespace
}  // namespace stof
