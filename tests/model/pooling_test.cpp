// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/model/config.h"
#include "src/model/json.h"
#include "tests/expect_error.h"
#include "tests/model/checkpoint.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

const std::string kTransformer = R"({"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"})";
const std::string kPooling = R"({"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"})";
const std::string kNormalize =
    R"({"idx":2,"name":"2","path":"2_Normalize","type":"sentence_transformers.models.Normalize"})";

const std::string kDense = R"({"idx":3,"name":"3","path":"2_Dense","type":"sentence_transformers.models.Dense"})";
const std::string kOrder =
    "accepted: Transformer, Pooling, Dense any number of times, Normalize of sentence_transformers, in this order";

ModelConfig encoder(std::int64_t hidden_size) {
  ModelConfig config;
  config.hidden_size = hidden_size;
  config.max_positions = 512;
  return config;
}

class PoolingFiles : public testing::Test {
 protected:
  PoolingFiles() { std::filesystem::create_directory(folder_ / "1_Pooling"); }
  PoolingConfig read() { return read_pooling(folder_.path(), encoder(8)); }
  void modules(const std::string& list) { write_bytes(folder_ / "modules.json", list); }
  void pooling(const std::string& object) { write_bytes(folder_ / "1_Pooling/config.json", object); }
  void lengths(const std::string& object) { write_bytes(folder_ / "sentence_bert_config.json", object); }
  void expect(const std::string& file, ErrorKind kind, const std::string& message) {
    EXPECT_ERROR(read(), kind, (folder_ / file).string() + ": " + message);
  }
  TemporaryFolder folder_;
};

TEST_F(PoolingFiles, TheCheckpoint) {
  const PoolingConfig config = read_pooling(checkpoint(), encoder(384));
  EXPECT_EQ(config.pooling, Pooling::mean);
  EXPECT_TRUE(config.normalize);
  EXPECT_EQ(config.max_tokens, 256);  // not the 128 of tokenizer.json
}

TEST_F(PoolingFiles, WithoutFiles) {
  const PoolingConfig config = read();
  EXPECT_EQ(config.pooling, Pooling::cls);
  EXPECT_FALSE(config.normalize);
  EXPECT_EQ(config.max_tokens, 512);
}

TEST_F(PoolingFiles, Modes) {
  modules("[" + kTransformer + "," + kPooling + "]");
  pooling(R"({"word_embedding_dimension":8,"pooling_mode_cls_token":false,"pooling_mode_max_tokens":true})");
  EXPECT_EQ(read().pooling, Pooling::max);
  EXPECT_FALSE(read().normalize);
  pooling(R"({"pooling_mode":"mean"})");
  EXPECT_EQ(read().pooling, Pooling::mean);
  pooling(R"({"pooling_mode_lasttoken":true})");
  EXPECT_EQ(read().pooling, Pooling::last);
  pooling(R"({"pooling_mode":["max"]})");
  EXPECT_EQ(read().pooling, Pooling::max);
  for (const char* none : {"{}", R"({"pooling_mode_cls_token":false,"pooling_mode_max_tokens":false})"}) {
    pooling(none);
    EXPECT_EQ(read().pooling, Pooling::mean);
  }
  modules("[" + kTransformer + "," + kPooling + "," + kNormalize + "]");
  EXPECT_TRUE(read().normalize);
}

TEST_F(PoolingFiles, RefusesModes) {
  modules("[" + kTransformer + "," + kPooling + "]");
  pooling(R"({"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":true})");
  expect("1_Pooling/config.json", ErrorKind::unsupported,
         "both pooling_mode_cls_token and pooling_mode_mean_tokens; accepted: one of cls, mean, max, lasttoken");
  pooling(R"({"pooling_mode":["mean","max"]})");
  expect("1_Pooling/config.json", ErrorKind::unsupported,
         R"('pooling_mode' is ["mean","max"]; accepted: one of cls, mean, max, lasttoken)");
  pooling(R"({"pooling_mode":"weightedmean"})");
  expect("1_Pooling/config.json", ErrorKind::unsupported, "pooling weightedmean; accepted: cls, mean, max, lasttoken");
  pooling(R"({"pooling_mode":"sum"})");
  expect("1_Pooling/config.json", ErrorKind::bad_file,
         R"('pooling_mode' is "sum"; accepted: cls, mean, max, lasttoken)");
  pooling(R"({"pooling_mode":"cls","word_embedding_dimension":9})");
  expect("1_Pooling/config.json", ErrorKind::bad_file,
         "'word_embedding_dimension' is 9; accepted: hidden_size of the encoder, 8");
  std::filesystem::remove(folder_ / "1_Pooling/config.json");
  EXPECT_ERROR(read(), ErrorKind::bad_file,
               "cannot read " + (folder_ / "1_Pooling/config.json").string() + ": No such file or directory");
}

TEST_F(PoolingFiles, RefusesModules) {
  modules("{}");
  expect("modules.json", ErrorKind::bad_file, "{}; accepted: an array");
  modules("[" + kTransformer + "]");
  expect("modules.json", ErrorKind::unsupported, "1 modules; accepted: 2 to 64");
  modules("[" + kPooling + "]");
  expect("modules.json", ErrorKind::unsupported, "module 0: sentence_transformers.models.Pooling; " + kOrder);
  modules(R"([{"path":"","type":"other.Transformer"}])");
  expect("modules.json", ErrorKind::unsupported, "module 0: other.Transformer; " + kOrder);
  pooling("{}");
  modules("[" + kTransformer + "," + kPooling + "," + kNormalize + "," + kDense + "]");
  expect("modules.json", ErrorKind::unsupported, "module 3: sentence_transformers.models.Dense; " + kOrder);
  modules("[" + kTransformer + "," + kPooling + "," + kNormalize + "," + kNormalize + "]");
  expect("modules.json", ErrorKind::unsupported, "module 3: sentence_transformers.models.Normalize; " + kOrder);
  modules("[" + kTransformer + "," + kPooling + "," + kPooling + "]");
  expect("modules.json", ErrorKind::unsupported, "module 2: sentence_transformers.models.Pooling; " + kOrder);
  modules("[" + fmt::format("{}", fmt::join(std::vector(65, kTransformer), ",")) + "]");
  expect("modules.json", ErrorKind::unsupported, "65 modules; accepted: 2 to 64");
  modules("[" + kTransformer + "," + kPooling +
          R"(,{"path":"../2_Dense","type":"sentence_transformers.models.Dense"}])");
  expect(
      "modules.json", ErrorKind::bad_file,
      "module 2: 'path' is \"../2_Dense\"; accepted: a folder in the same folder, named by at most 255 bytes, none a "
      "control character");
  modules("[" + kTransformer + "," + kDense + "]");
  expect("modules.json", ErrorKind::unsupported, "module 1: sentence_transformers.models.Dense; " + kOrder);
  modules(R"([{"path":"0_T","type":"sentence_transformers.models.Transformer"}])");
  expect("modules.json", ErrorKind::unsupported, "module 0: path '0_T'; accepted: ''");
  for (const std::string& path : {std::string("../1_Pooling"), std::string("/1_Pooling"), std::string(".."),
                                  std::string("a\nb"), std::string(256, 'n')}) {
    nlohmann::json pooling = nlohmann::json::parse(kPooling);
    pooling["path"] = path;
    modules("[" + kTransformer + "," + pooling.dump() + "]");
    expect("modules.json", ErrorKind::bad_file,
           "module 1: 'path' is " + excerpt(path) +
               "; accepted: a folder in the same folder, named by at most 255 bytes, none a control character");
  }
  modules("[7]");
  expect("modules.json", ErrorKind::bad_file, "module 0: 7; accepted: an object");
}

TEST_F(PoolingFiles, RefusesADefaultPrompt) {
  const auto prompts = [&](const std::string& object) {
    write_bytes(folder_ / "config_sentence_transformers.json", object);
  };
  for (const char* without : {R"({"prompts":{"query":"query: "}})", R"({"default_prompt_name":null})",
                              R"({"default_prompt_name":"query","prompts":{"query":""}})"}) {
    prompts(without);
    EXPECT_EQ(read().max_tokens, 512) << without;
  }
  for (const char* with : {R"({"default_prompt_name":"query","prompts":{"query":"query: "}})",
                           R"({"default_prompt_name":"query","prompts":{}})", R"({"default_prompt_name":"query"})"}) {
    prompts(with);
    expect("config_sentence_transformers.json", ErrorKind::unsupported,
           R"('default_prompt_name' is "query"; accepted: null; put the prompt into the texts)");
  }
}

TEST_F(PoolingFiles, Lengths) {
  lengths(R"({"max_seq_length":128,"do_lower_case":false})");
  EXPECT_EQ(read().max_tokens, 128);
  write_bytes(folder_ / "tokenizer_config.json", R"({"model_max_length":64})");
  EXPECT_EQ(read().max_tokens, 128);
  lengths(R"({"max_seq_length":null})");
  EXPECT_EQ(read().max_tokens, 64);
  write_bytes(folder_ / "tokenizer_config.json", R"({"model_max_length":1000000000000000019884624838656})");
  EXPECT_EQ(read().max_tokens, 512);
  write_bytes(folder_ / "tokenizer_config.json", R"({"model_max_length":null})");
  EXPECT_EQ(read().max_tokens, 512);
  lengths(R"({"max_seq_length":514})");  // of a RoBERTa, whose positions begin with the third
  EXPECT_EQ(read().max_tokens, 512);
  lengths(R"({"max_seq_length":1})");
  expect("sentence_bert_config.json", ErrorKind::bad_file, "'max_seq_length' is 1; accepted: an integer from 2 to 512");
  lengths(R"({"do_lower_case":true})");  // the tokenizer's concern
  EXPECT_EQ(read().max_tokens, 512);
  std::filesystem::remove(folder_ / "sentence_bert_config.json");
  write_bytes(folder_ / "tokenizer_config.json", R"({"model_max_length":"long"})");
  expect("tokenizer_config.json", ErrorKind::bad_file, R"('model_max_length' is "long"; accepted: a number above 0)");
}

// The names of before, in the order in which sentence-transformers looks for them; those that say nothing are passed
// over.
TEST_F(PoolingFiles, LengthsUnderOlderNames) {
  std::int64_t length = 10;
  for (const char* name : {"xlnet", "xlm-roberta", "albert", "camembert", "distilbert", "roberta", "bert"}) {
    write_bytes(folder_ / fmt::format("sentence_{}_config.json", name),
                fmt::format("{{\"max_seq_length\":{}}}", ++length));
    EXPECT_EQ(read().max_tokens, length) << name;
  }
  lengths("{}");
  EXPECT_EQ(read().max_tokens, length - 1);
  write_bytes(folder_ / "sentence_roberta_config.json", R"({"max_seq_length":1})");
  expect("sentence_roberta_config.json", ErrorKind::bad_file,
         "'max_seq_length' is 1; accepted: an integer from 2 to 512");
}

TEST_F(PoolingFiles, TakesWhatChangesNothing) {
  for (const char* text : {
           R"({"transformer_task":"feature-extraction","modality_config":{"text":{"method":"forward",)"
           R"("method_output_name":"last_hidden_state"}},"module_output_name":"token_embeddings"})",  // as 6.2 saves it
           R"({"modality_config":{"text":{"method":"forward","method_output_name":"last_hidden_state"},"message":)"
           R"({"method":"forward","method_output_name":"last_hidden_state","format":"flat"}}})",
           R"({"model_args":{"trust_remote_code":true},"tokenizer_args":null,"config_kwargs":{}})",
           R"({"processing_kwargs":{"text":{},"image":{"size":1}},"unpad_inputs":true,"document_length":8})",
       }) {
    lengths(text);
    EXPECT_EQ(read().max_tokens, 512) << text;
  }
}

TEST_F(PoolingFiles, RefusesWhatChangesResults) {
  const auto expect_refused = [&](const std::string& text, const std::string& message) {
    lengths(text);
    expect("sentence_bert_config.json", ErrorKind::unsupported, message);
  };
  for (const std::string key :
       {"model_args", "model_kwargs", "tokenizer_args", "processor_kwargs", "config_args", "config_kwargs"})
    expect_refused("{\"" + key + R"(":{"model_max_length":8}})",
                   "'" + key + R"(' is {"model_max_length":8}; accepted: null or nothing in it)");
  expect_refused(R"({"config_args":{"trust_remote_code":true,"is_causal":false}})",
                 R"('config_args' is {"is_causal":false,"trust_remote_code":true}; accepted: null or nothing in it)");
  expect_refused(R"({"tokenizer_name_or_path":"bert-base-cased"})",
                 R"('tokenizer_name_or_path' is "bert-base-cased"; accepted: null)");
  expect_refused(R"({"processing_kwargs":{"text":{"max_length":8}}})",
                 R"(processing_kwargs: 'text' is {"max_length":8}; accepted: null or nothing in it)");
  expect_refused(R"({"processing_kwargs":{"common":{"padding":"max_length"}}})",
                 R"(processing_kwargs: 'common' is {"padding":"max_length"}; accepted: null or nothing in it)");
  expect_refused(R"({"transformer_task":"fill-mask"})",
                 R"('transformer_task' is "fill-mask"; accepted: feature-extraction)");
  expect_refused(R"({"modality_config":{"text":{"method":"forward","method_output_name":"x"}}})",
                 R"(modality_config: 'text' is {"method":"forward","method_output_name":"x"}; accepted: )"
                 R"({"method":"forward","method_output_name":"last_hidden_state"})");
  expect_refused(R"({"module_output_name":"sentence_embedding"})",
                 R"('module_output_name' is "sentence_embedding"; accepted: token_embeddings)");
  lengths(R"({"modality_config":{"image":{}}})");
  expect("sentence_bert_config.json", ErrorKind::bad_file, "modality_config: 'text' is missing");
}

}  // namespace
}  // namespace stof
