// SPDX-License-Identifier: Apache-2.0
// What stands beside tokenizer.json, and beside vocab.txt: what agrees is taken, what would change ids is refused.
#include "src/model/tokenizer_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/model/tokenizer.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

// The tokenizer of a family, and files of one's own.
class BesideTokenizerJson : public testing::Test {
 protected:
  void take(const std::string& family) {
    tree_ = json::parse(
        read_bytes(std::filesystem::path(STOF_SOURCE_DIR) / "tests/data/families" / family / "tokenizer.json"));
    write_bytes(folder_ / "config.json", json{{"model_type", family}}.dump());
  }
  Ids ids(const json& config, const std::string& text = "The bread") {
    write_bytes(folder_ / "tokenizer.json", tree_.dump());
    write_bytes(folder_ / "tokenizer_config.json", config.dump());
    return Tokenizer::load(folder_.path()).encode(text);
  }
  void expect(const json& config, const std::string& message, const char* file = "tokenizer_config.json") {
    EXPECT_ERROR(ids(config), ErrorKind::unsupported, (folder_ / file).string() + ": " + message);
  }
  json tree_;
  TemporaryFolder folder_;
};

TEST_F(BesideTokenizerJson, OptionsOfBertContradictNothingOrAreRefused) {
  take("distilbert");
  const Ids expected = ids(json::object());
  for (const json& agreeing : {json{{"do_lower_case", true}, {"strip_accents", nullptr}},
                               json{{"strip_accents", true}, {"tokenize_chinese_chars", true}},
                               json{{"tokenizer_class", "PreTrainedTokenizerFast"}, {"do_lower_case", false}}})
    EXPECT_EQ(ids(agreeing), expected) << agreeing;
  for (const char* name : {"BertTokenizer", "DistilBertTokenizerFast", "ElectraTokenizer"})
    expect({{"tokenizer_class", name}, {"do_lower_case", false}},
           "'do_lower_case' is false, and 'lowercase' of tokenizer.json is true; accepted: the same in both");
  expect({{"do_lower_case", false}},
         "'do_lower_case' is false, and 'lowercase' of tokenizer.json is true; accepted: the same in both");
  expect({{"strip_accents", false}},
         "'strip_accents' is false, and 'strip_accents' of tokenizer.json is true; accepted: the same in both");
  expect(
      {{"tokenize_chinese_chars", false}},
      "'tokenize_chinese_chars' is false, and 'handle_chinese_chars' of tokenizer.json is true; accepted: the same in "
      "both");
  tree_["normalizer"]["lowercase"] = false;
  EXPECT_EQ(ids({{"do_lower_case", false}}), ids(json::object()));
  expect({{"do_lower_case", true}},
         "'do_lower_case' is true, and 'lowercase' of tokenizer.json is false; accepted: the same in both");
}

TEST_F(BesideTokenizerJson, AddedSpacesContradictNothingOrAreRefused) {
  for (const char* family : {"gpt2", "roberta", "longformer", "qwen2"}) {
    take(family);
    EXPECT_EQ(ids({{"add_prefix_space", false}}), ids(json::object())) << family;
    expect({{"add_prefix_space", true}},
           "'add_prefix_space' is true, and 'add_prefix_space' of tokenizer.json is false; accepted: the same in both");
    EXPECT_EQ(ids({{"tokenizer_class", "PreTrainedTokenizerFast"}, {"add_prefix_space", true}}), ids(json::object()));
  }
  take("roberta");
  expect({{"tokenizer_class", "LongformerTokenizerFast"}, {"add_prefix_space", true}},
         "'add_prefix_space' is true, and 'add_prefix_space' of tokenizer.json is false; accepted: the same in both");
  take("gpt2");
  tree_["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_EQ(ids({{"add_prefix_space", true}}), ids(json::object()));
  expect({{"tokenizer_class", "GPT2TokenizerFast"}, {"add_prefix_space", false}},
         "'add_prefix_space' is false, and 'add_prefix_space' of tokenizer.json is true; accepted: the same in both");
}

// config.json may name the class, too; what tokenizer_config.json has comes first.
TEST_F(BesideTokenizerJson, TheClassStandsInEitherFile) {
  take("gpt2");
  write_bytes(folder_ / "config.json", R"({"model_type":"gpt2","tokenizer_class":"PreTrainedTokenizerFast"})");
  EXPECT_EQ(ids({{"add_prefix_space", true}}), ids(json::object()));
  expect({{"tokenizer_class", "GPT2Tokenizer"}, {"add_prefix_space", true}},
         "'add_prefix_space' is true, and 'add_prefix_space' of tokenizer.json is false; accepted: the same in both");
}

TEST_F(BesideTokenizerJson, AddedTokensAreThoseOfTokenizerJson) {
  take("distilbert");
  const json mask = {{"content", "[MASK]"}, {"lstrip", true}, {"special", true}};
  const json agreeing = {{"added_tokens_decoder", {{"4", mask}}},
                         {"extra_special_tokens", json::object()},
                         {"additional_special_tokens", {"[PAD]", mask}},
                         {"mask_token", mask},
                         {"eos_token", nullptr},
                         {"cls_token", "[CLS]"}};
  EXPECT_EQ(ids(agreeing), ids(json::object()));
  const std::string lacking = "'the' is not an added token of tokenizer.json; accepted: one that is";
  expect({{"added_tokens_decoder", {{"4", {{"content", "the"}}}}}}, "added_tokens_decoder: " + lacking);
  expect({{"extra_special_tokens", {"[PAD]", "the"}}}, "extra_special_tokens: " + lacking);
  expect({{"extra_special_tokens", {{"image_token", "the"}}}}, "extra_special_tokens: " + lacking);
  expect({{"additional_special_tokens", {{{"content", "the"}}}}}, "additional_special_tokens: " + lacking);
  expect({{"pad_token", "<pad>"}},
         "'pad_token' is '<pad>', which is no token of tokenizer.json; accepted: one that is");
  expect({{"cls_token", "[PAD]"}}, "'cls_token' is '[PAD]', and '[CLS]' stands around texts; accepted: the same");
  expect({{"split_special_tokens", true}}, "'split_special_tokens' is true; accepted: false");
}

// Files of before, which transformers reads where tokenizer_config.json has no added_tokens_decoder.
TEST_F(BesideTokenizerJson, OlderFilesNameAddedTokensToo) {
  take("roberta");
  const json map = {{"cls_token", "<s>"}, {"mask_token", {{"content", "<mask>"}, {"lstrip", true}}}};
  write_bytes(folder_ / "special_tokens_map.json", map.dump());
  write_bytes(folder_ / "added_tokens.json", R"({"<mask>":4})");
  const Ids expected = ids(json::object());
  write_bytes(folder_ / "added_tokens.json", R"({"<extra>":800})");
  expect(json::object(), "'<extra>' is not an added token of tokenizer.json; accepted: one that is",
         "added_tokens.json");
  EXPECT_EQ(ids({{"added_tokens_decoder", json::object()}}), expected);
  std::filesystem::remove(folder_ / "added_tokens.json");
  write_bytes(folder_ / "special_tokens_map.json", R"({"additional_special_tokens":["the"]})");
  expect(json::object(),
         "additional_special_tokens: 'the' is not an added token of tokenizer.json; accepted: one that is",
         "special_tokens_map.json");
  write_bytes(folder_ / "special_tokens_map.json", R"({"cls_token":"</s>"})");
  expect({{"cls_token", "<s>"}}, "'cls_token' is '</s>', and '<s>' stands around texts; accepted: the same",
         "special_tokens_map.json");
}

class BesideVocabulary : public testing::Test {
 protected:
  BesideVocabulary() { write_bytes(folder_ / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na"); }
  Ids ids(const json& config) {
    write_bytes(folder_ / "tokenizer_config.json", config.dump());
    return Tokenizer::load(folder_.path()).encode("a");
  }
  void expect(const json& config, const std::string& message, const char* file = "tokenizer_config.json") {
    EXPECT_ERROR(ids(config), ErrorKind::unsupported, (folder_ / file).string() + ": " + message);
  }
  TemporaryFolder folder_;
};

TEST_F(BesideVocabulary, ClassesThatSplitAsBert) {
  for (const char* name : {"BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast",
                           "ElectraTokenizer", "ElectraTokenizerFast"})
    EXPECT_EQ(ids({{"tokenizer_class", name}}), (Ids{2, 5, 3})) << name;
  EXPECT_EQ(ids({{"tokenizer_class", nullptr}, {"auto_map", {{"AutoTokenizer", nullptr}}}}), (Ids{2, 5, 3}));
  const std::string accepted =
      "; accepted with vocab.txt: BertTokenizer, DistilBertTokenizer, ElectraTokenizer, also with Fast behind";
  for (const std::string name :
       {"BertJapaneseTokenizer", "MPNetTokenizer", "RoFormerTokenizer", "BertweetTokenizer", "PreTrainedTokenizerFast"})
    expect({{"tokenizer_class", name}}, "'tokenizer_class' is \"" + name + "\"" + accepted);
  expect({{"auto_map", {{"AutoTokenizer", "tokens.Mine"}}}},
         R"(auto_map: 'AutoTokenizer' is "tokens.Mine"; accepted with vocab.txt: null)");
  write_bytes(folder_ / "config.json", R"({"tokenizer_class":"BertJapaneseTokenizer"})");
  expect(json::object(), R"('tokenizer_class' is "BertJapaneseTokenizer")" + accepted, "config.json");
  EXPECT_EQ(ids({{"tokenizer_class", "BertTokenizer"}}), (Ids{2, 5, 3}));
}

TEST_F(BesideVocabulary, OtherFilesNameNoOtherTokens) {
  write_bytes(folder_ / "special_tokens_map.json", R"({"cls_token":"[CLS]","additional_special_tokens":["[MASK]"]})");
  EXPECT_EQ(ids(json::object()), (Ids{2, 5, 3}));
  write_bytes(folder_ / "special_tokens_map.json", R"({"additional_special_tokens":["a"]})");
  expect(json::object(), "additional_special_tokens: 'a' is not an added token of vocab.txt; accepted: one that is",
         "special_tokens_map.json");
  write_bytes(folder_ / "special_tokens_map.json", R"({"cls_token":"[PAD]"})");
  expect(json::object(), "'cls_token' is '[PAD]', and '[CLS]' stands around texts; accepted: the same",
         "special_tokens_map.json");
  expect({{"split_special_tokens", true}}, "'split_special_tokens' is true; accepted: false");
}

}  // namespace
}  // namespace stof
