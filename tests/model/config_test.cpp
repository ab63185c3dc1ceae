// SPDX-License-Identifier: Apache-2.0
#include "src/model/config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/model/model.h"
#include "tests/expect_error.h"
#include "tests/model/changed_config.h"
#include "tests/model/checkpoint.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

using nlohmann::json;

class Config : public testing::Test {
 protected:
  ModelConfig read(const char* key = nullptr, const json& value = {}) {
    json tree = {{"model_type", "bert"},    {"architectures", {"BertModel"}}, {"vocab_size", 30},
                 {"hidden_size", 8},        {"num_hidden_layers", 1},         {"num_attention_heads", 2},
                 {"intermediate_size", 16}, {"max_position_embeddings", 32}};
    if (key) tree[key] = value;
    write_bytes(folder_ / "config.json", tree.dump());
    return read_config(folder_.path());
  }
  void expect(const char* key, const json& value, ErrorKind kind, const std::string& message) {
    EXPECT_ERROR(read(key, value), kind, (folder_ / "config.json").string() + ": " + message);
  }
  TemporaryFolder folder_;
};

TEST_F(Config, ReadsTheCheckpoint) {
  const ModelConfig config = read_config(checkpoint());
  EXPECT_EQ(config.architecture, "BertModel");
  EXPECT_EQ(config.vocab_size, 30522);
  EXPECT_EQ(config.hidden_size, 384);
  EXPECT_EQ(config.layers, 6);
  EXPECT_EQ(config.heads, 12);
  EXPECT_EQ(config.intermediate_size, 1536);
  EXPECT_EQ(config.max_positions, 512);
  EXPECT_EQ(config.type_vocab_size, 2);
  EXPECT_EQ(config.activation, "gelu");
  EXPECT_EQ(config.norm_epsilon, 1e-12);
}

TEST_F(Config, HasTheDefaultsOfTheFamily) {
  const ModelConfig config = read();
  EXPECT_EQ(config.type_vocab_size, 2);
  EXPECT_EQ(config.activation, "gelu");
  EXPECT_EQ(config.norm_epsilon, 1e-12);
  EXPECT_EQ(read("hidden_act", "gelu_pytorch_tanh").activation, "gelu_new");
  EXPECT_EQ(read("hidden_act", "swish").activation, "silu");
  EXPECT_EQ(read("architectures", nullptr).architecture, "BertModel");
}

TEST_F(Config, RefusesOtherModels) {
  expect("model_type", "bart", ErrorKind::unsupported,
         R"('model_type' is "bart"; accepted: bert, roberta, xlm-roberta, distilbert, longformer, gpt2, modernbert, )"
         "llama, mistral, qwen2, qwen3, phi3, gemma2, gemma3_text, eurobert, nomic_bert, mpnet, t5, mt5, umt5");
  expect("architectures", {"BertLMHeadModel"}, ErrorKind::unsupported,
         R"('architectures' is ["BertLMHeadModel"]; accepted: BertModel, BertForMaskedLM, BertForPreTraining, )"
         "BertForNextSentencePrediction, BertForSequenceClassification, BertForTokenClassification, "
         "BertForQuestionAnswering, BertForMultipleChoice");
  expect("architectures", "BertModel", ErrorKind::bad_file,
         R"('architectures' is "BertModel"; accepted: an array of one string)");
  expect("hidden_act", "mish", ErrorKind::unsupported,
         R"('hidden_act' is "mish"; accepted: gelu, gelu_new, gelu_pytorch_tanh, relu, silu, swish)");
  expect("position_embedding_type", "relative_key", ErrorKind::unsupported,
         R"('position_embedding_type' is "relative_key"; accepted: absolute)");
  expect("is_decoder", true, ErrorKind::unsupported, "'is_decoder' is true; accepted: false");
  expect("add_cross_attention", true, ErrorKind::unsupported, "'add_cross_attention' is true; accepted: false");
}

TEST_F(Config, RefusesWeightsThatAreNotSimplyTheLayers) {
  expect("quantization_config", {{"quant_method", "gptq"}}, ErrorKind::unsupported,
         R"('quantization_config' is {"quant_method":"gptq"}; accepted: null)");
  expect("per_layer_config", {{"1", 1}}, ErrorKind::unsupported, R"('per_layer_config' is {"1":1}; accepted: null)");
  expect("transformers_weights", "other.safetensors", ErrorKind::unsupported,
         R"('transformers_weights' is "other.safetensors"; accepted: null)");
  EXPECT_EQ(read("quantization_config", nullptr).layers, 1);
  EXPECT_EQ(read("auto_map", {{"AutoModel", "modeling.Model"}}).layers, 1);  // transformers alone leaves it, too
  write_bytes(folder_ / "adapter_config.json", "{}");
  EXPECT_ERROR(read(), ErrorKind::unsupported,
               (folder_ / "adapter_config.json").string() +
                   ": an adapter is not applied; accepted: a checkpoint that it is merged into");
}

TEST_F(Config, KnowsBertByItsArchitectures) {
  const auto read_without_type = [&](const json& architectures) {
    json tree = json::parse((read(), read_bytes(folder_ / "config.json")));
    tree.erase("model_type");
    tree["architectures"] = architectures;
    write_bytes(folder_ / "config.json", tree.dump());
    return read_config(folder_.path());
  };
  EXPECT_EQ(read_without_type({"BertForMaskedLM"}).family, Family::bert);
  for (const json& other : {json::array({"RobertaModel"}), json(nullptr), json("BertModel")})
    EXPECT_ERROR(
        read_without_type(other), ErrorKind::bad_file,
        (folder_ / "config.json").string() + ": 'model_type' is missing; accepted without it: 'architectures' of BERT");
}

TEST_F(Config, EncodersSeeBothSides) {
  EXPECT_FALSE(read("is_causal", false).causal);
  EXPECT_FALSE(read("is_causal", nullptr).causal);
  expect("is_causal", true, ErrorKind::unsupported, "'is_causal' is true; accepted: false for an encoder");
  expect("is_causal", 0, ErrorKind::bad_file, "'is_causal' is 0; accepted: true, false, null");
}

TEST_F(Config, ReadsEveryFamily) {
  const std::filesystem::path folder = std::filesystem::path(STOF_SOURCE_DIR) / "tests/data/families";
  const ModelConfig roberta = read_config(folder / "roberta");
  EXPECT_EQ(roberta.family, Family::roberta);
  EXPECT_EQ(roberta.architecture, "RobertaForMaskedLM");
  EXPECT_EQ(roberta.first_position, 2);
  EXPECT_EQ(roberta.max_positions, 200);
  EXPECT_EQ(roberta.position_rows(), 202);
  EXPECT_EQ(roberta.type_vocab_size, 1);
  const ModelConfig distilbert = read_config(folder / "distilbert");
  EXPECT_EQ(distilbert.family, Family::distilbert);
  EXPECT_EQ(distilbert.hidden_size, 32);
  EXPECT_EQ(distilbert.intermediate_size, 64);
  EXPECT_EQ(distilbert.type_vocab_size, 0);
  const ModelConfig longformer = read_config(folder / "longformer");
  EXPECT_EQ(longformer.family, Family::longformer);
  EXPECT_EQ(longformer.position_rows(), 202);
  EXPECT_EQ(longformer.reaches, (std::vector<std::int64_t>{4, 8}));
  const ModelConfig gpt2 = read_config(folder / "gpt2");
  EXPECT_EQ(gpt2.family, Family::gpt2);
  EXPECT_EQ(gpt2.intermediate_size, 128);
  EXPECT_EQ(gpt2.activation, "gelu_new");
  EXPECT_EQ(gpt2.norm_epsilon, 1e-5);
  EXPECT_TRUE(gpt2.tied_head);
}

class OtherNames : public ChangedConfig {};

// As transformers has it (attribute_map).
TEST_F(OtherNames, StandForThoseOfGpt2AndDistilBert) {
  const ModelConfig gpt2 = read("gpt2", {{"n_embd", "absent"},
                                         {"n_layer", "absent"},
                                         {"n_head", "absent"},
                                         {"n_positions", "absent"},
                                         {"hidden_size", 48},
                                         {"num_hidden_layers", 5},
                                         {"num_attention_heads", 6},
                                         {"max_position_embeddings", 70}});
  EXPECT_EQ(std::tuple(gpt2.hidden_size, gpt2.layers, gpt2.heads, gpt2.max_positions), std::tuple(48, 5, 6, 70));
  EXPECT_EQ(gpt2.intermediate_size, 4 * 48);
  const ModelConfig distilbert = read("distilbert", {{"dim", "absent"},
                                                     {"n_layers", "absent"},
                                                     {"n_heads", 4},
                                                     {"hidden_size", 48},
                                                     {"num_hidden_layers", 5},
                                                     {"num_attention_heads", 4}});
  EXPECT_EQ(std::tuple(distilbert.hidden_size, distilbert.layers, distilbert.heads), std::tuple(48, 5, 4));
  const std::string accepted = "; accepted: one of them, or the same twice";
  expect("gpt2", {{"num_attention_heads", 2}}, ErrorKind::bad_file,
         ": 'n_head' is 4, and 'num_attention_heads' is 2" + accepted);
  expect("distilbert", {{"num_hidden_layers", 1}}, ErrorKind::bad_file,
         ": 'n_layers' is 2, and 'num_hidden_layers' is 1" + accepted);
}

TEST_F(OtherNames, PositionsOfAKindAreBertsAlone) {
  EXPECT_EQ(read("modernbert", {{"position_embedding_type", "sans_pos"}}).family, Family::modernbert);
  expect("roberta", {{"position_embedding_type", "relative_key"}}, ErrorKind::unsupported,
         R"(: 'position_embedding_type' is "relative_key"; accepted: absolute)");
  for (const char* decoder : {"gpt2", "llama"}) EXPECT_TRUE(read(decoder, {{"is_decoder", true}}).causal);
  expect("roberta", {{"is_decoder", true}}, ErrorKind::unsupported, ": 'is_decoder' is true; accepted: false");
}

class LongformerConfig : public ChangedConfig {};

TEST_F(LongformerConfig, HasAWindowForEachLayer) {
  const auto reaches = [&](const json& changed) { return read("longformer", changed).reaches; };
  EXPECT_EQ(reaches({{"attention_window", 6}}), (std::vector<std::int64_t>{3, 3}));
  EXPECT_EQ(reaches({{"attention_window", "absent"}}), (std::vector<std::int64_t>{256, 256}));
  EXPECT_EQ(reaches({{"num_hidden_layers", 0}, {"attention_window", json::array()}}), std::vector<std::int64_t>{});
  for (const json& window : {json(7), json(0), json(-2), json("8"), json(nullptr), json(8.0), json(1e300),
                             json::array({8}), json::array({8, 3}), json::array({8, 8, 8})})
    expect("longformer", {{"attention_window", window}}, ErrorKind::bad_file,
           ": 'attention_window' is " + window.dump() +
               "; accepted: an even number of 2 or more, or an array of one for each of 2 layers");
  expect("longformer", {{"num_hidden_layers", 10001}, {"attention_window", 8}}, ErrorKind::bad_file,
         ": 'num_hidden_layers' is 10001; accepted: 0 to 10000");
}

class ModernConfig : public ChangedConfig {
 protected:
  ModelConfig read(const json& changed) { return ChangedConfig::read("modernbert", changed); }
  void expect(const json& changed, ErrorKind kind, const std::string& message) {
    ChangedConfig::expect("modernbert", changed, kind, message);
  }
};

TEST_F(ModernConfig, ReadsTheWordsOfBothVersions) {
  const ModelConfig config = read(json::object());
  EXPECT_EQ(config.family, Family::modernbert);
  EXPECT_EQ(config.architecture, "ModernBertForMaskedLM");
  EXPECT_EQ(config.norm_epsilon, 1e-5);
  EXPECT_FALSE(config.norm_bias || config.attention_bias || config.mlp_bias);
  EXPECT_EQ(rotary_text(config), "all 160000, 6 10000, 6 10000, all 160000, 6 10000");
  const json of_4 = {{"layer_types", "absent"},  {"rope_parameters", "absent"}, {"global_attn_every_n_layers", 2},
                     {"global_rope_theta", 5e4}, {"local_rope_theta", 2e3},     {"local_attention", 128}};
  EXPECT_EQ(rotary_text(read(of_4)), "all 50000, 64 2000, all 50000, 64 2000, all 50000");
  json of_nothing = {{"layer_types", "absent"}, {"rope_parameters", nullptr}, {"local_attention", "absent"}};
  EXPECT_EQ(rotary_text(read(of_nothing)), "all 160000, 64 10000, 64 10000, all 160000, 64 10000");
  of_nothing["local_rope_theta"] = nullptr;
  EXPECT_EQ(rotary_text(read(of_nothing)), "all 160000, 64 160000, 64 160000, all 160000, 64 160000");
  EXPECT_TRUE(read({{"norm_bias", true}}).norm_bias);
}

TEST_F(ModernConfig, RefusesWhatIsNotUnderstood) {
  expect({{"layer_types", {"full_attention"}}}, ErrorKind::bad_file,
         R"(: 'layer_types' is ["full_attention"]; accepted: an array of num_hidden_layers strings, 5)");
  expect({{"num_hidden_layers", 1}, {"layer_types", {"chunked_attention"}}}, ErrorKind::unsupported,
         R"(: 'layer_types' has "chunked_attention"; accepted: "full_attention", "sliding_attention")");
  expect({{"rope_scaling", {{"factor", 2}}}}, ErrorKind::unsupported,
         R"(: 'rope_scaling' is {"factor":2}; accepted: null)");
  expect({{"rope_parameters", {{"full_attention", {{"rope_type", "yarn"}}}}}}, ErrorKind::unsupported,
         R"(: rope_parameters: full_attention: 'rope_type' is "yarn"; accepted: "default")");
  expect({{"rope_parameters", {{"full_attention", {{"type", "yarn"}}}}}}, ErrorKind::unsupported,
         ": rope_parameters: full_attention: 'type' is not understood; accepted: rope_type, rope_theta");
  expect({{"max_position_embeddings", 2147483647}}, ErrorKind::bad_file,
         ": 'max_position_embeddings' is 2147483647; accepted: 2 to 1048576");
  expect({{"rope_parameters", {{"rope_theta", 1e4}}}}, ErrorKind::unsupported,
         ": rope_parameters: 'rope_theta' is not understood; accepted: full_attention, sliding_attention");
  expect({{"rope_parameters", {{"full_attention", {{"rope_theta", 0}}}}}}, ErrorKind::bad_file,
         ": rope_parameters: full_attention: 'rope_theta' is 0; accepted: a number above 0");
  expect({{"global_attn_every_n_layers", 0}, {"layer_types", nullptr}}, ErrorKind::bad_file,
         ": 'global_attn_every_n_layers' is 0; accepted: an integer from 1 to 2147483647");
  EXPECT_EQ(rotary_text(read({{"sliding_window", 6}})), rotary_text(read(json::object())));
  expect({{"sliding_window", 20}}, ErrorKind::bad_file,
         ": 'sliding_window' is 20; accepted: half of local_attention, 6");
  expect({{"local_attention", -2}}, ErrorKind::bad_file,
         ": 'local_attention' is -2; accepted: an integer from 0 to 2147483647");
  expect({{"num_hidden_layers", 20'000}}, ErrorKind::bad_file, ": 'num_hidden_layers' is 20000; accepted: 0 to 10000");
  expect({{"num_attention_heads", 32}}, ErrorKind::bad_file,
         ": 'hidden_size' is 32; accepted: an even number for each of 32 heads");
  expect({{"mlp_bias", 1}}, ErrorKind::bad_file, ": 'mlp_bias' is 1; accepted: true, false");
}

TEST_F(Config, RefusesWhatOtherFamiliesMayHave) {
  const std::filesystem::path folder = std::filesystem::path(STOF_SOURCE_DIR) / "tests/data/families";
  const auto expect_of = [&](const std::string& family, const char* key, const json& value, ErrorKind kind,
                             const std::string& message) {
    json tree = json::parse(read_bytes(folder / family / "config.json"));
    tree[key] = value;
    write_bytes(folder_ / "config.json", tree.dump());
    EXPECT_ERROR(read_config(folder_.path()), kind, (folder_ / "config.json").string() + ": " + message);
  };
  expect_of("roberta", "max_position_embeddings", 3, ErrorKind::bad_file,
            "'max_position_embeddings' is 3; accepted: at least pad_token_id + 3, 4");
  expect_of("roberta", "architectures", {"RobertaForCausalLM"}, ErrorKind::unsupported,
            R"('architectures' is ["RobertaForCausalLM"]; accepted: RobertaModel, RobertaForMaskedLM, )"
            "RobertaForSequenceClassification, RobertaForTokenClassification, RobertaForQuestionAnswering, "
            "RobertaForMultipleChoice");
  expect_of("distilbert", "dim", 30, ErrorKind::bad_file, "'dim' is 30; accepted: a multiple of n_heads, 4");
  expect_of("gpt2", "n_inner", 0, ErrorKind::bad_file, "'n_inner' is 0; accepted: an integer from 1 to 2147483647");
  expect_of("gpt2", "n_embd", 1 << 30, ErrorKind::bad_file,
            "'n_embd' is 1073741824; accepted: at most 536870911 where n_inner is not given");
  expect_of("gpt2", "scale_attn_weights", false, ErrorKind::unsupported,
            "'scale_attn_weights' is false; accepted: true");
  expect_of("gpt2", "scale_attn_by_inverse_layer_idx", true, ErrorKind::unsupported,
            "'scale_attn_by_inverse_layer_idx' is true; accepted: false");
}

TEST_F(Config, RefusesSizes) {
  expect("vocab_size", 0, ErrorKind::bad_file, "'vocab_size' is 0; accepted: an integer from 1 to 2147483647");
  expect("hidden_size", "8", ErrorKind::bad_file, R"('hidden_size' is "8"; accepted: an integer from 1 to 2147483647)");
  expect("num_hidden_layers", -1, ErrorKind::bad_file,
         "'num_hidden_layers' is -1; accepted: an integer from 0 to 2147483647");
  expect("hidden_size", std::int64_t{1} << 31, ErrorKind::bad_file,
         "'hidden_size' is 2147483648; accepted: an integer from 1 to 2147483647");
  expect("num_hidden_layers", 1e18, ErrorKind::bad_file,
         "'num_hidden_layers' is 1e+18; accepted: an integer from 0 to 2147483647");
  expect("hidden_size", 9, ErrorKind::bad_file, "'hidden_size' is 9; accepted: a multiple of num_attention_heads, 2");
  expect("layer_norm_eps", 0, ErrorKind::bad_file, "'layer_norm_eps' is 0; accepted: a number above 0");
  expect("layer_norm_eps", 1e300, ErrorKind::bad_file,
         "'layer_norm_eps' is 1e+300; accepted: 1.2e-38 to 3.4e38, as floats are");
}

TEST_F(Config, RefusesFoldersThatAreNoModel) {
  const std::string path = folder_.path().string();
  EXPECT_ERROR(read_model(folder_ / "none"), ErrorKind::bad_file,
               path +
                   "/none: no such folder; a model is a folder with config.json, model.safetensors, and tokenizer.json "
                   "or vocab.txt");
  const std::string model = "a model is a folder with config.json, model.safetensors, and tokenizer.json or vocab.txt";
  EXPECT_ERROR(read_model(""), ErrorKind::bad_file, "the folder of the model has no name, it is ''; " + model);
  for (const char* name : {"Qwen/Qwen3-0.6B", "no_owner/all-MiniLM-L6-v2"})
    EXPECT_ERROR(read_model(name), ErrorKind::bad_file,
                 std::string(name) + ": no such folder; " + model +
                     "; names of the Hugging Face Hub are not taken: download it, into a folder (docs/sessions.md, "
                     "Models)");
  for (const char* name : {"/usr/none", "./none/none", "none", "a/b/c", "none/", "a b/c"})
    EXPECT_ERROR(read_model(name), ErrorKind::bad_file, std::string(name) + ": no such folder; " + model);
  write_bytes(folder_ / "file", "");
  EXPECT_ERROR(read_model(folder_ / "file"), ErrorKind::bad_file,
               path +
                   "/file: not a folder; a model is a folder with config.json, model.safetensors, and tokenizer.json "
                   "or vocab.txt");
  EXPECT_ERROR(read_model(folder_.path()), ErrorKind::bad_file,
               path +
                   ": no config.json; a model is a folder with config.json, model.safetensors, and tokenizer.json or "
                   "vocab.txt");
  read();
  EXPECT_ERROR(read_model(folder_.path()), ErrorKind::bad_file,
               path +
                   ": neither model.safetensors nor model.safetensors.index.json; weights in other files "
                   "(pytorch_model.bin) are not read");
}

TEST_F(Config, WeightsHaveTheNamesOfBertModel) {
  read();
  const std::string header = R"({"bert.a.LayerNorm.gamma":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                             R"("b.LayerNorm.beta":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},)"
                             R"("ids":{"dtype":"I32","shape":[1],"data_offsets":[8,12]},)"
                             R"("d":{"dtype":"F64","shape":[1],"data_offsets":[12,20]}})";
  const std::string length{static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0};
  write_bytes(folder_ / "model.safetensors", length + header + std::string(20, '\0'));
  const Model model = read_model(folder_.path());
  EXPECT_EQ(model.weight("a.LayerNorm.weight", {1}).dtype, DType::f32);
  EXPECT_EQ(model.weight("b.LayerNorm.bias", {1}).dtype, DType::f32);
  const std::string file = (folder_ / "model.safetensors").string();
  EXPECT_ERROR(model.weight("c", {2, 3}), ErrorKind::bad_file, file + ": tensor 'c' of shape [2, 3] is missing");
  EXPECT_ERROR(model.weight("a.LayerNorm.weight", {8}), ErrorKind::bad_file,
               file + ": tensor 'a.LayerNorm.weight' has shape [1]; config.json asks for [8]");
  EXPECT_ERROR(model.weight("ids", {1}), ErrorKind::bad_file,
               file + ": tensor 'ids' is i32; accepted for a weight: f32, f16, bf16");
  EXPECT_ERROR(model.weight("d", {1}), ErrorKind::bad_file,
               file + ": tensor 'd' is F64; accepted for a weight: f32, f16, bf16");
}

TEST_F(Config, RefusesTwoNamesOfOneWeight) {
  read();
  const std::string header = R"({"bert.a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)"
                             R"("a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})";
  write_bytes(folder_ / "model.safetensors",
              std::string{static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0} + header);
  EXPECT_ERROR(read_model(folder_.path()), ErrorKind::bad_file,
               (folder_ / "model.safetensors").string() + ": tensor 'a' appears twice, once under another name");
}

TEST_F(Config, TheCheckpointHasItsWeights) {
  const Model model = read_model(checkpoint());
  EXPECT_EQ(model.weights.size(), 104u);
  const TensorView& words = model.weight("embeddings.word_embeddings.weight", {30522, 384});
  EXPECT_EQ(words.strides, (Shape{384, 1}));
  // As the Python package `safetensors` reads them: the first and the last element of a tensor.
  EXPECT_FLOAT_EQ(words.as<float>()[0], -0.019989014f);
  EXPECT_FLOAT_EQ(words.as<float>()[30522 * 384 - 1], 0.0045700637f);
  EXPECT_FLOAT_EQ(model.weight("encoder.layer.5.output.dense.weight", {384, 1536}).as<float>()[384 * 1536 - 1],
                  0.0012321293f);
}

}  // namespace
}  // namespace stof
