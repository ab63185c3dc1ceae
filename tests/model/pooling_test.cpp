// SPDX-License-Identifier: Apache-2.0
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
  modules("[" + kTransformer + "," + kPooling + "," + kNormalize + "]");
  EXPECT_TRUE(read().normalize);
}

TEST_F(PoolingFiles, RefusesModes) {
  modules("[" + kTransformer + "," + kPooling + "]");
  pooling(R"({"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":true})");
  expect("1_Pooling/config.json", ErrorKind::unsupported,
         "both pooling_mode_cls_token and pooling_mode_mean_tokens; accepted: one of cls, mean, max, lasttoken");
  pooling("{}");
  expect("1_Pooling/config.json", ErrorKind::bad_file,
         "no pooling mode is true; accepted: one of cls, mean, max, lasttoken");
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
  expect("modules.json", ErrorKind::unsupported, "1 modules; accepted: 2 or 3");
  modules("[" + kPooling + "]");
  expect("modules.json", ErrorKind::unsupported,
         "module 0: sentence_transformers.models.Pooling; accepted: Transformer, Pooling, Normalize of "
         "sentence_transformers, in this order");
  modules(R"([{"path":"","type":"other.Transformer"}])");
  expect(
      "modules.json", ErrorKind::unsupported,
      "module 0: other.Transformer; accepted: Transformer, Pooling, Normalize of sentence_transformers, in this order");
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
  lengths(R"({"max_seq_length":513})");
  expect("sentence_bert_config.json", ErrorKind::bad_file,
         "'max_seq_length' is 513; accepted: an integer from 2 to 512");
  lengths(R"({"do_lower_case":true})");
  expect("sentence_bert_config.json", ErrorKind::unsupported, "'do_lower_case' is true; accepted: false");
  std::filesystem::remove(folder_ / "sentence_bert_config.json");
  write_bytes(folder_ / "tokenizer_config.json", R"({"model_max_length":"long"})");
  expect("tokenizer_config.json", ErrorKind::bad_file, R"('model_max_length' is "long"; accepted: a number above 0)");
}

}  // namespace
}  // namespace stof
