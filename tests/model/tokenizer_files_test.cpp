// SPDX-License-Identifier: Apache-2.0
#include "src/model/tokenizer_files.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/model/tokenizer.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

using nlohmann::json;
using Pointer = json::json_pointer;
using Ids = std::vector<std::int32_t>;

json small_tokenizer() {
  return json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 1, "content": "[CLS]", "single_word": false, "lstrip": false, "rstrip": false,
                      "normalized": false, "special": true}],
    "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
                   "lowercase": true},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                 {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
      "pair": [],
      "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]},
                         "[SEP]": {"id": "[SEP]", "ids": [2], "tokens": ["[SEP]"]}}},
    "decoder": null,
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
              "max_input_chars_per_word": 5,
              "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "ab": 4, "##c": 5, "##cd": 6, ".": 7}}
  })");
}

class TokenizerJson : public testing::Test {
 protected:
  Tokenizer load(const json& tree) {
    write_bytes(file_, tree.dump());
    return Tokenizer::load(folder_.path());
  }
  Tokenizer load(const std::string& pointer, const json& value) {
    json tree = small_tokenizer();
    tree[Pointer(pointer)] = value;
    return load(tree);
  }
  void expect(const std::string& pointer, const json& value, ErrorKind kind, const std::string& message) {
    EXPECT_ERROR(load(pointer, value), kind, file_.string() + ": " + message);
  }
  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "tokenizer.json";
};

TEST_F(TokenizerJson, Reads) {
  const Tokenizer tokenizer = load(small_tokenizer());
  EXPECT_EQ(tokenizer.encode("ABCD a. x abcdc abcdcc [CLS]"), (Ids{1, 4, 6, 3, 7, 0, 4, 6, 5, 0, 1, 2}));
}

TEST_F(TokenizerJson, PostProcessors) {
  EXPECT_EQ(load("/post_processor", nullptr).encode("a"), (Ids{3}));
  EXPECT_EQ(
      load("/post_processor", {{"type", "BertProcessing"}, {"sep", {"[SEP]", 2}}, {"cls", {"[CLS]", 1}}}).encode("a"),
      (Ids{1, 3, 2}));
}

TEST_F(TokenizerJson, RefusesOtherParts) {
  expect("/normalizer", {{"type", "Sequence"}}, ErrorKind::unsupported,
         "normalizer: type Sequence; accepted: BertNormalizer");
  expect("/normalizer", nullptr, ErrorKind::bad_file, "normalizer: null; accepted: an object");
  expect("/normalizer/clean_text", 1, ErrorKind::bad_file, "normalizer: 'clean_text' is 1; accepted: true, false");
  expect("/normalizer/nfkc", true, ErrorKind::unsupported,
         "normalizer: 'nfkc' is not understood; accepted: type, clean_text, handle_chinese_chars, strip_accents, "
         "lowercase");
  expect("/pre_tokenizer/type", "Whitespace", ErrorKind::unsupported,
         "pre_tokenizer: type Whitespace; accepted: BertPreTokenizer");
  expect("/pre_tokenizer/split", 1, ErrorKind::unsupported, "pre_tokenizer: 'split' is not understood; accepted: type");
  expect("/model/type", "WordLevel", ErrorKind::unsupported,
         "model: type WordLevel; accepted: WordPiece, BPE, Unigram");
  expect("/model/dropout", 0.1, ErrorKind::unsupported,
         "model: 'dropout' is not understood; accepted: type, unk_token, continuing_subword_prefix, "
         "max_input_chars_per_word, vocab");
  expect("/post_processor/type", "Lowercase", ErrorKind::unsupported,
         "post_processor: type Lowercase; accepted: TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel, "
         "Sequence");
  expect("/version", "2.0", ErrorKind::bad_file, R"('version' is "2.0"; accepted: 1.0)");
  expect("/extra", 1, ErrorKind::unsupported,
         "'extra' is not understood; accepted: version, truncation, padding, added_tokens, normalizer, pre_tokenizer, "
         "post_processor, decoder, model");
}

TEST_F(TokenizerJson, RefusesVocabularies) {
  expect("/model/unk_token", "[X]", ErrorKind::bad_file, "model: vocab: the unk_token '[X]' is not in it");
  expect("/model/vocab/a", -1, ErrorKind::bad_file,
         "model: vocab: 'a': id -1; accepted: an integer from 0 to 2147483646");
  expect("/model/vocab/a", 2147483648, ErrorKind::bad_file,
         "model: vocab: 'a': id 2147483648; accepted: an integer from 0 to 2147483646");
  expect("/model/vocab", json::array(), ErrorKind::bad_file, "model: vocab: []; accepted: an object");
  expect("/model/max_input_chars_per_word", "5", ErrorKind::bad_file,
         R"(model: 'max_input_chars_per_word' is "5"; accepted: an integer from 0 to 2147483646)");
}

TEST_F(TokenizerJson, RefusesAbsurdSizes) {
  expect("/model/vocab/a", std::int64_t{1} << 31, ErrorKind::bad_file,
         "model: vocab: 'a': id 2147483648; accepted: an integer from 0 to 2147483646");
  expect("/model/max_input_chars_per_word", std::int64_t{1} << 60, ErrorKind::bad_file,
         "model: 'max_input_chars_per_word' is 1152921504606846976; accepted: an integer from 0 to 2147483646");
  json tree = small_tokenizer();
  tree["model"]["vocab"][std::string(20'000'000, 'x')] = 8;
  EXPECT_ERROR(load(tree), ErrorKind::bad_file,
               folder_.path().string() +
                   ": the tokens of the vocabulary have 20000031 bytes; accepted: at most 16777216 together");
  json added = small_tokenizer();
  added["added_tokens"].push_back(added["added_tokens"][0]);
  added["added_tokens"][1]["content"] = std::string(20'000'000, 'x');
  added["added_tokens"][1]["id"] = 8;
  EXPECT_ERROR(load(added), ErrorKind::bad_file,
               folder_.path().string() +
                   ": the tokens of the vocabulary have 20000031 bytes; accepted: at most 16777216 together");
  write_bytes(file_, std::string((64 << 20) + 1, ' '));
  EXPECT_ERROR(Tokenizer::load(folder_.path()), ErrorKind::bad_file,
               file_.string() + ": 67108865 bytes of JSON; accepted: at most 67108864");
}

TEST_F(TokenizerJson, RefusesAddedTokens) {
  expect("/added_tokens", 1, ErrorKind::bad_file, "'added_tokens' is 1; accepted: an array");
  expect("/added_tokens/0/id", 2, ErrorKind::bad_file,
         "added token 0: '[CLS]' has id 2; accepted: 1, its place in the vocabulary");
  expect("/added_tokens/0/content", "[X]", ErrorKind::bad_file,
         "added token 0: '[X]' has id 1; accepted: 8, its place in the vocabulary");
  expect("/added_tokens/0/lstrip", nullptr, ErrorKind::bad_file,
         "added token 0: 'lstrip' is null; accepted: true, false");
  expect("/added_tokens/0/regex", true, ErrorKind::unsupported,
         "added token 0: 'regex' is not understood; accepted: id, content, single_word, lstrip, rstrip, normalized, "
         "special");
  json twice = small_tokenizer();
  twice["added_tokens"].push_back(twice["added_tokens"][0]);
  EXPECT_ERROR(load(twice), ErrorKind::bad_file, "the added token '[CLS]' is looked for twice, as '[CLS]'");
  json mark = small_tokenizer();
  mark["added_tokens"][0]["content"] = "\xcc\x81";
  mark["added_tokens"][0]["id"] = 8;
  mark["added_tokens"][0]["normalized"] = true;
  EXPECT_ERROR(load(mark), ErrorKind::bad_file, "the added token '\xcc\x81' is empty when normalised");
}

TEST_F(TokenizerJson, RefusesAddedTokensOfOneId) {
  json tree = small_tokenizer();
  tree["model"]["vocab"]["X"] = 1;
  tree["added_tokens"].push_back(tree["added_tokens"][0]);
  tree["added_tokens"][1]["content"] = "X";
  EXPECT_ERROR(load(tree), ErrorKind::bad_file,
               file_.string() + ": added token 1: 'X' has id 1, as '[CLS]' has; accepted: an id of its own");
}

TEST_F(TokenizerJson, RefusesToCutTheBeginning) {
  const auto expect_refused = [&](const Tokenizer& tokenizer, const std::string& what) {
    EXPECT_EQ(tokenizer.encode("a ab", 4).ids, (Ids{1, 3, 4, 2}));
    EXPECT_ERROR(tokenizer.encode("a ab a", 4), ErrorKind::unsupported,
                 folder_.path().string() + what + "; accepted for a text of more than 4 tokens: right");
  };
  const json left = {{"direction", "Left"}, {"max_length", 4}};
  expect_refused(load("/truncation", left), R"(/tokenizer.json: truncation: 'direction' is "Left")");
  const std::filesystem::path config = folder_ / "tokenizer_config.json";
  write_bytes(config, R"({"truncation_side": "left"})");
  expect_refused(load(small_tokenizer()), R"(/tokenizer_config.json: 'truncation_side' is "left")");
  write_bytes(config, R"({"truncation_side": null})");
  expect_refused(load("/truncation", left), R"(/tokenizer.json: truncation: 'direction' is "Left")");
  write_bytes(config, R"({"truncation_side": "right"})");
  EXPECT_EQ(load("/truncation", left).encode("a ab a", 4).ids, (Ids{1, 3, 4, 2}));
}

// As BAAI/bge-small-en has it, whose tokenizer lowercases in any case.
TEST_F(TokenizerJson, LowercasesByItselfOrNotAtAll) {
  const std::filesystem::path file = folder_ / "sentence_bert_config.json";
  write_bytes(file, R"({"max_seq_length":512,"do_lower_case":true})");
  EXPECT_EQ(load(small_tokenizer()).encode("AB"), (Ids{1, 4, 2}));
  EXPECT_ERROR(load("/normalizer/lowercase", false), ErrorKind::unsupported,
               file.string() + ": 'do_lower_case' is true; accepted: false, or a tokenizer that lowercases by itself");
  write_bytes(file, R"({"do_lower_case":false})");
  EXPECT_EQ(load("/normalizer/lowercase", false).encode("AB ab"), (Ids{1, 0, 4, 2}));
}

TEST_F(TokenizerJson, RefusesTemplates) {
  expect("/post_processor/single", "$A", ErrorKind::bad_file,
         R"(post_processor: 'single' is "$A"; accepted: an array)");
  expect("/post_processor/single", json::array(), ErrorKind::bad_file,
         "post_processor: 'single' is []; accepted: a template with the sequence A");
  expect("/post_processor/single/1/Sequence/id", "B", ErrorKind::bad_file,
         "post_processor: single: part 1: Sequence: 'id' is \"B\"; accepted: A, once");
  expect("/post_processor/single/1/Sequence/type_id", 1, ErrorKind::bad_file,
         "post_processor: single: part 1: Sequence: 'type_id' is 1; accepted: an integer from 0 to 0");
  expect("/post_processor/single/0/SpecialToken/id", "[X]", ErrorKind::bad_file,
         "post_processor: special_tokens: '[X]' is missing");
  expect("/post_processor/special_tokens/[CLS]/ids", 1, ErrorKind::bad_file,
         "post_processor: special_tokens: [CLS]: 'ids' is 1; accepted: an array of ids");
  expect("/post_processor", {{"type", "BertProcessing"}, {"sep", 2}, {"cls", {"[CLS]", 1}}}, ErrorKind::bad_file,
         "post_processor: 'sep' is 2; accepted: an array of a token and its id");
}

class VocabularyFile : public testing::Test {
 protected:
  VocabularyFile() { write_bytes(folder_ / "vocab.txt", "[PAD]\n[UNK]\r\n[CLS]\n[SEP]\n[MASK]\na\nA\n##b\n\xc3\xa9"); }
  Tokenizer load(const std::string& config) {
    write_bytes(folder_ / "tokenizer_config.json", config);
    return Tokenizer::load(folder_.path());
  }
  void expect(const std::string& config, ErrorKind kind, const std::string& message) {
    EXPECT_ERROR(load(config), kind, (folder_ / "tokenizer_config.json").string() + ": " + message);
  }
  TemporaryFolder folder_;
};

TEST_F(VocabularyFile, Options) {
  EXPECT_EQ(Tokenizer::load(folder_.path()).encode("a Ab \xc3\xa9 [MASK]"), (Ids{2, 5, 5, 7, 1, 4, 3}));
  EXPECT_EQ(load(R"({"do_lower_case": false})").encode("a Ab \xc3\xa9"), (Ids{2, 5, 6, 7, 8, 3}));
  EXPECT_EQ(load(R"({"strip_accents": false})").encode("\xc3\x89"), (Ids{2, 8, 3}));
  EXPECT_EQ(load(R"({"clean_text": false})")
                .encode("\xe2\x80\x8b"
                        "a"),
            (Ids{2, 5, 3}));
  EXPECT_EQ(load(R"({"cls_token": {"content": "a", "lstrip": true}, "pad_token": "[UNK]"})").encode("A a"),
            (Ids{5, 5, 5, 3}));
}

TEST_F(VocabularyFile, WhiteSpaceAtTheEndOfALineIsNoPartOfItsToken) {
  write_bytes(folder_ / "vocab.txt", "[PAD]\n[UNK] \n[CLS]\n[SEP]\t\r\n[MASK]\na \xe3\x80\x80\nb\xc2\xa0");
  EXPECT_EQ(Tokenizer::load(folder_.path()).encode("a b c"), (Ids{2, 5, 6, 1, 3}));
}

TEST_F(VocabularyFile, Refusals) {
  expect(R"({"do_basic_tokenize": false})", ErrorKind::bad_file, "'do_basic_tokenize' is false; accepted: true");
  expect(R"({"never_split": ["x"]})", ErrorKind::bad_file,
         R"('never_split' is ["x"]; accepted: null or nothing in it)");
  expect(R"({"added_tokens_decoder": {"5": {"content": "a"}}})", ErrorKind::unsupported,
         "added_tokens_decoder: 5: 'a' is not one of the tokens that " + (folder_ / "tokenizer_config.json").string() +
             " names; accepted with vocab.txt: only these");
  EXPECT_EQ(load(R"({"added_tokens_decoder": {"2": {"content": "[CLS]", "special": true}}})").encode(""), (Ids{2, 3}));
  EXPECT_ERROR(load(R"({"sep_token": "</s>"})"), ErrorKind::bad_file,
               (folder_ / "vocab.txt").string() + ": the sep_token '</s>' is not in it");
  write_bytes(folder_ / "vocab.txt", "a\n\xff\n");
  EXPECT_ERROR(load("{}"), ErrorKind::bad_file, (folder_ / "vocab.txt").string() + ": not UTF-8 at byte 2");
  write_bytes(folder_ / "added_tokens.json", "{}");
  EXPECT_ERROR(load("{}"), ErrorKind::unsupported,
               folder_.path().string() + ": added_tokens.json beside vocab.txt is not read; accepted: tokenizer.json");
}

TEST_F(VocabularyFile, AbsurdSizes) {
  const std::string file = (folder_ / "vocab.txt").string();
  write_bytes(folder_ / "vocab.txt", std::string(4'000'001, '\n'));
  EXPECT_ERROR(load("{}"), ErrorKind::bad_file, file + ": more than 4000000 lines; accepted: one for each token");
  write_bytes(folder_ / "vocab.txt", std::string((64 << 20) + 1, 'x'));
  EXPECT_ERROR(load("{}"), ErrorKind::bad_file, file + ": 67108865 bytes; accepted: at most 67108864");
}

TEST(TokenizerFolder, WithoutFiles) {
  TemporaryFolder folder;
  EXPECT_ERROR(Tokenizer::load(folder.path()), ErrorKind::bad_file,
               folder.path().string() + ": neither tokenizer.json nor vocab.txt");
}

}  // namespace
}  // namespace stof
