// SPDX-License-Identifier: Apache-2.0
// tokenizer.json of decoders: as Llama 3, Qwen 2 and Mistral 7B have it, and what is refused of it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/model/byte_level.h"
#include "src/model/tokenizer.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

using nlohmann::json;
using Pointer = json::json_pointer;
using Ids = std::vector<std::int32_t>;

#define MARK "\xe2\x96\x81"

json with_model(const json& normalizer, const json& pre_tokenizer, const json& model) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", json::array()},
          {"normalizer", normalizer},
          {"pre_tokenizer", pre_tokenizer},
          {"post_processor", nullptr},
          {"decoder", nullptr},
          {"model", model}};
}

json template_before(const std::string& token, int id) {
  return {
      {"type", "TemplateProcessing"},
      {"single", {{{"SpecialToken", {{"id", token}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"pair", json::array()},
      {"special_tokens", {{token, {{"id", token}, {"ids", {id}}, {"tokens", {token}}}}}}};
}

const json kOffsets = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", false}, {"use_regex", true}};

// 259 is a word that no merge makes; 260 is none, for its characters are no bytes'.
json small_llama3() {
  json vocab = json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[ByteLevel::token_of(static_cast<unsigned char>(byte))] = byte;
  vocab["ab"] = 256;
  vocab["<s>"] = 257;
  vocab["12"] = 258;
  vocab["\xc4\xa0xyz"] = 259;
  vocab[MARK] = 260;
  const json split = {
      {"type", "Split"},
      {"pattern",
       {{"Regex",
         R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}}},
      {"behavior", "Isolated"},
      {"invert", false}};
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  json tree = with_model(nullptr, {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}},
                         {{"type", "BPE"},
                          {"dropout", nullptr},
                          {"unk_token", nullptr},
                          {"fuse_unk", false},
                          {"byte_fallback", false},
                          {"ignore_merges", true},
                          {"vocab", vocab},
                          {"merges", {"a b", "1 2"}}});
  tree["post_processor"] = {{"type", "Sequence"}, {"processors", {kOffsets, template_before("<s>", 257)}}};
  return tree;
}

json small_mistral() {
  const json metaspace = {{"type", "Metaspace"}, {"replacement", MARK}, {"prepend_scheme", "first"}, {"split", false}};
  json tree = with_model(
      nullptr, metaspace,
      {{"type", "BPE"},
       {"unk_token", "<unk>"},
       {"fuse_unk", true},
       {"byte_fallback", true},
       {"vocab", {{"<unk>", 0}, {"<s>", 1}, {"a", 2}, {"b", 3}, {MARK, 4}, {"ab", 5}, {MARK "ab", 6}, {"<0x0A>", 7}}},
       {"merges", json::array({json::array({"a", "b"}), json::array({MARK, "ab"})})}});
  tree["added_tokens"] = {{{"id", 1},
                           {"content", "<s>"},
                           {"single_word", false},
                           {"lstrip", false},
                           {"rstrip", false},
                           {"normalized", false},
                           {"special", true}}};
  tree["post_processor"] = template_before("<s>", 1);
  return tree;
}

class Bpe : public testing::Test {
 protected:
  explicit Bpe(json tree = small_llama3()) : tree_(std::move(tree)) {}
  Tokenizer load() {
    write_bytes(folder_ / "tokenizer.json", tree_.dump());
    return Tokenizer::load(folder_.path());
  }
  Tokenizer load(const std::string& pointer, const json& value) {
    const json before = tree_;
    tree_[Pointer(pointer)] = value;
    write_bytes(folder_ / "tokenizer.json", tree_.dump());
    tree_ = before;
    return Tokenizer::load(folder_.path());
  }
  void expect(const std::string& pointer, const json& value, ErrorKind kind, const std::string& message) {
    EXPECT_ERROR(load(pointer, value), kind, (folder_ / "tokenizer.json").string() + ": " + message);
  }
  json tree_;
  TemporaryFolder folder_;
};

class Llama3Json : public Bpe {};
class MistralJson : public Bpe {
 protected:
  MistralJson() : Bpe(small_mistral()) {}
};

TEST_F(Llama3Json, Reads) {
  EXPECT_EQ(load().encode("ab xyz1234"), (Ids{257, 256, 259, 258, '3', '4'}));
  EXPECT_EQ(load().encode("\n12 " MARK), (Ids{257, '\n', 258, ' ', 0xE2, 0x96, 0x81}));
  EXPECT_EQ(load("/model/ignore_merges", false).encode("ab xyz"), (Ids{257, 256, ' ', 'x', 'y', 'z'}));
  EXPECT_EQ(load("/post_processor", template_before("<s>", 257)).encode("ab"), (Ids{257, 256}));
  EXPECT_EQ(load("/post_processor/processors", json::array()).encode("ab"), (Ids{256}));
}

// 1 and 2 are merged only where a word has both.
TEST_F(Llama3Json, ReadsQwens) {
  const std::string pattern = "/pre_tokenizer/pretokenizers/0/pattern";
  const std::string expression =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  EXPECT_EQ(load(pattern, {{"Regex", expression}}).encode("ab12"), (Ids{257, 256, '1', '2'}));
  EXPECT_EQ(load("/normalizer", {{"type", "NFC"}}).encode("e\xcc\x81"), (Ids{257, 0xC3, 0xA9}));
}

TEST_F(Llama3Json, RefusesOtherSplits) {
  const std::string split = "/pre_tokenizer/pretokenizers/0", where = "pre_tokenizer: pretokenizer 0: ";
  const std::string accepted =
      R"(; accepted: Llama 3's {"Regex":"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}, )"
      R"(Qwen 2's {"Regex":"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}, )"
      R"(GPT-4o's {"Regex":"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
      R"([^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
      R"(\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"})";
  expect(split + "/pattern", {{"Regex", R"(\p{N}{1,3}|\w+)"}}, ErrorKind::unsupported,
         where + R"('pattern' is {"Regex":"\\p{N}{1,3}|\\w+"})" + accepted);
  expect(split + "/pattern", {{"String", " "}}, ErrorKind::unsupported,
         where + R"('pattern' is {"String":" "})" + accepted);
  expect(split + "/pattern/Regex", std::string(600, 'x'), ErrorKind::unsupported,
         where + R"('pattern' is {"Regex":")" + std::string(490, 'x') + "..." + accepted);
  expect(split + "/behavior", "Removed", ErrorKind::unsupported,
         where + R"('behavior' is "Removed"; accepted: Isolated)");
  expect(split + "/invert", true, ErrorKind::unsupported, where + "'invert' is true; accepted: false");
  expect(split + "/flags", 1, ErrorKind::unsupported,
         where + "'flags' is not understood; accepted: type, pattern, behavior, invert");
  expect(split + "/type", "Digits", ErrorKind::unsupported, where + "type Digits; accepted: Split");
  expect(split, 1, ErrorKind::bad_file, "pre_tokenizer: pretokenizer 0: 1; accepted: an object");
}

TEST_F(Llama3Json, RefusesOtherSequences) {
  const std::string bytes = "/pre_tokenizer/pretokenizers/1", where = "pre_tokenizer: pretokenizer 1: ";
  expect(bytes + "/use_regex", true, ErrorKind::unsupported,
         where + "'use_regex' is true; accepted: false behind a Split");
  expect(bytes + "/add_prefix_space", true, ErrorKind::unsupported,
         where + "'add_prefix_space' is true; accepted: false behind a Split");
  json defaulted = tree_[Pointer(bytes)];
  defaulted.erase("use_regex");
  expect(bytes, defaulted, ErrorKind::bad_file, where + "'use_regex' is missing");
  expect(bytes + "/type", "Metaspace", ErrorKind::unsupported, where + "type Metaspace; accepted: ByteLevel");
  expect("/pre_tokenizer/pretokenizers", json::array(), ErrorKind::unsupported,
         "pre_tokenizer: 'pretokenizers' is []; accepted: an array of a Split and a ByteLevel");
  expect("/pre_tokenizer/pretokenizers", 1, ErrorKind::bad_file,
         "pre_tokenizer: 'pretokenizers' is 1; accepted: an array of a Split and a ByteLevel");
  expect("/pre_tokenizer/behavior", 1, ErrorKind::unsupported,
         "pre_tokenizer: 'behavior' is not understood; accepted: type, pretokenizers");
  expect("/normalizer", {{"type", "Lowercase"}}, ErrorKind::unsupported,
         R"('normalizer' is {"type":"Lowercase"}; accepted: null, {"type":"NFC"} with a model of type BPE)");
  expect("/model/byte_fallback", true, ErrorKind::unsupported, "model: 'byte_fallback' is true; accepted: false");
  expect("/model/ignore_merges", 1, ErrorKind::bad_file, "model: 'ignore_merges' is 1; accepted: true, false");
  expect("/model/vocab/12", 256, ErrorKind::bad_file,
         "model: vocab: '12' has id 256, as 'ab' has; accepted: an id of its own");
}

TEST_F(Llama3Json, RefusesOtherPostProcessors) {
  const std::string list = "/post_processor/processors", accepted = "; accepted: ByteLevel, and one TemplateProcessing";
  expect(list, 1, ErrorKind::bad_file, "post_processor: 'processors' is 1; accepted: an array");
  expect(list + "/-", template_before("<s>", 257), ErrorKind::unsupported,
         "post_processor: processor 2: type TemplateProcessing" + accepted);
  expect(list + "/0/type", "BertProcessing", ErrorKind::unsupported,
         "post_processor: processor 0: type BertProcessing" + accepted);
  expect(list + "/0/type", "Sequence", ErrorKind::unsupported, "post_processor: processor 0: type Sequence" + accepted);
  expect(list + "/0/trim", 1, ErrorKind::unsupported,
         "post_processor: processor 0: 'trim' is not understood; accepted: type, add_prefix_space, trim_offsets, "
         "use_regex");
  expect(list + "/1/single/1/Sequence/id", "B", ErrorKind::bad_file,
         "post_processor: processor 1: single: part 1: Sequence: 'id' is \"B\"; accepted: A, once");
  expect("/post_processor/trim", 1, ErrorKind::unsupported,
         "post_processor: 'trim' is not understood; accepted: type, processors");
}

TEST_F(MistralJson, Reads) {
  EXPECT_EQ(load().encode("ab ab\n\xc3\xa9\xc3\xa9"), (Ids{1, 6, 6, 7, 0}));
  EXPECT_EQ(load().encode(""), (Ids{1}));
  EXPECT_EQ(load().encode("ab<s>ab<s> ab"), (Ids{1, 6, 1, 5, 1, 6}));
  EXPECT_EQ(load().encode(" ab"), (Ids{1, 6}));
  const std::string scheme = "/pre_tokenizer/prepend_scheme";
  EXPECT_EQ(load(scheme, "always").encode("ab<s>ab"), (Ids{1, 6, 1, 6}));
  EXPECT_EQ(load(scheme, "never").encode("ab<s> ab"), (Ids{1, 5, 1, 6}));
  EXPECT_EQ(load("/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", MARK}, {"split", false}}).encode("<s>ab"),
            (Ids{1, 1, 6}));
  EXPECT_EQ(load("/model/fuse_unk", false).encode("\xc3\xa9\xc3\xa9"), (Ids{1, 4, 0, 0}));
  EXPECT_EQ(load("/model/unk_token", nullptr).encode("\xc3\xa9\n"), (Ids{1, 4, 7}));
  EXPECT_EQ(load("/model/byte_fallback", false).encode("\n"), (Ids{1, 4, 0}));
}

// As older files have it. A word begins at each mark, so that no merge joins what is on both sides of one.
TEST_F(MistralJson, SplitsAtMarksUnlessItSaysNot) {
  json& vocab = tree_["model"]["vocab"];
  vocab["b" MARK] = 8;
  tree_["model"]["merges"] = json::array({"b " MARK, "a b", MARK " ab"});
  EXPECT_EQ(load().encode("ab  ab"), (Ids{1, 4, 2, 8, 6}));
  const json old = {{"type", "Metaspace"}, {"replacement", MARK}, {"add_prefix_space", true}};
  EXPECT_EQ(load("/pre_tokenizer", old).encode("ab  ab"), (Ids{1, 6, 4, 6}));
  EXPECT_EQ(load("/pre_tokenizer/split", true).encode("ab  ab "), (Ids{1, 6, 4, 6, 4}));
  tree_["pre_tokenizer"]["prepend_scheme"] = "never";
  EXPECT_EQ(load("/pre_tokenizer/add_prefix_space", false).encode("ab"), (Ids{1, 5}));
}

// Tokens join across a mark, too, where merges say so, and empty ones do no harm.
TEST_F(MistralJson, ReadsAnyMerges) {
  json& vocab = tree_["model"]["vocab"];
  vocab["b" MARK] = 8;
  vocab["ab" MARK "ab"] = 9;
  vocab[""] = 10;
  tree_["model"]["merges"] = json::array({json::array({"b", MARK}), json::array({"a", "b"}), json::array({"", "a"})});
  EXPECT_EQ(load().encode("ab ab"), (Ids{1, 4, 2, 8, 5}));
  tree_["model"]["merges"] = json::array({"a b", MARK " ab", "ab " MARK "ab"});
  EXPECT_EQ(load().encode("ab ab"), (Ids{1, 6, 6}));
  EXPECT_EQ(load("/pre_tokenizer/prepend_scheme", "never").encode("ab ab"), (Ids{1, 9}));
}

// Unlike a Metaspace it puts a mark before a part that begins with a space.
TEST_F(MistralJson, ReadsTheFormWithANormalizer) {
  tree_["pre_tokenizer"] = nullptr;
  tree_["normalizer"] =
      json::parse(R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": ")" MARK R"("},
          {"type": "Replace", "pattern": {"String": " "}, "content": ")" MARK R"("}]})");
  EXPECT_EQ(load().encode("ab<s> ab"), (Ids{1, 6, 1, 4, 6}));
  EXPECT_EQ(load().encode(""), (Ids{1}));
  const std::string accepted =
      R"(; accepted: {"normalizers":[{"prepend":")" MARK R"(","type":"Prepend"},{"content":")" MARK
      R"(","pattern":{"String":" "},"type":"Replace"}],"type":"Sequence"} where 'pre_tokenizer' is null)";
  expect("/normalizer", nullptr, ErrorKind::unsupported, "'normalizer' is null" + accepted);
  expect("/normalizer", {{"type", "NFC"}}, ErrorKind::unsupported, R"('normalizer' is {"type":"NFC"})" + accepted);
  for (const std::string part : {"0/prepend", "1/content", "1/pattern/String"})
    EXPECT_ANY_THROW(load("/normalizer/normalizers/" + part, "_")) << part;
  EXPECT_ANY_THROW(load("/normalizer/normalizers/-", {{"type", "NFC"}}));
}

// No mark is put before anything.
TEST_F(MistralJson, ReadsGemmasForm) {
  tree_["normalizer"] = json::parse(R"({"type": "Replace", "pattern": {"String": " "}, "content": ")" MARK R"("})");
  tree_["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "MergedWithPrevious"}};
  tree_["pre_tokenizer"]["invert"] = false;
  EXPECT_EQ(load().encode("ab<s> ab"), (Ids{1, 5, 1, 6}));
  EXPECT_EQ(load().encode(" ab"), (Ids{1, 6}));
  expect("/pre_tokenizer/behavior", "Isolated", ErrorKind::unsupported,
         R"(pre_tokenizer: 'behavior' is "Isolated"; accepted: MergedWithPrevious)");
  expect("/pre_tokenizer/invert", true, ErrorKind::unsupported, "pre_tokenizer: 'invert' is true; accepted: false");
  EXPECT_EQ(load().encode(""), (Ids{1}));
  expect("/pre_tokenizer/pattern/String", "_", ErrorKind::unsupported,
         R"(pre_tokenizer: 'pattern' is {"String":"_"}; accepted: {"String":" "} by itself)");
  const std::string accepted =
      R"(; accepted: {"content":")" MARK R"(","pattern":{"String":" "},"type":"Replace"} before a Split at spaces)";
  expect("/normalizer", nullptr, ErrorKind::unsupported, "'normalizer' is null" + accepted);
  expect("/normalizer", {{"type", "NFC"}}, ErrorKind::unsupported, R"('normalizer' is {"type":"NFC"})" + accepted);
}

TEST_F(MistralJson, RefusesOtherParts) {
  expect("/pre_tokenizer/replacement", "_", ErrorKind::unsupported,
         "pre_tokenizer: 'replacement' is \"_\"; accepted: " MARK);
  expect("/pre_tokenizer/prepend_scheme", "last", ErrorKind::unsupported,
         "pre_tokenizer: 'prepend_scheme' is \"last\"; accepted: always, first, never");
  expect("/pre_tokenizer/add_prefix_space", false, ErrorKind::unsupported,
         "pre_tokenizer: 'add_prefix_space' is false; accepted: true, unless prepend_scheme is never");
  expect(
      "/pre_tokenizer/mark", true, ErrorKind::unsupported,
      "pre_tokenizer: 'mark' is not understood; accepted: type, replacement, add_prefix_space, prepend_scheme, split, "
      "str_rep");
  expect("/pre_tokenizer/type", "Digits", ErrorKind::unsupported,
         "pre_tokenizer: type Digits; accepted: ByteLevel, Sequence, Split, Metaspace");
  expect("/normalizer", {{"type", "NFC"}}, ErrorKind::unsupported,
         R"('normalizer' is {"type":"NFC"}; accepted: null before a Metaspace)");
  expect("/model/ignore_merges", true, ErrorKind::unsupported, "model: 'ignore_merges' is true; accepted: false");
  expect("/model/dropout", 0.5, ErrorKind::unsupported, "model: 'dropout' is 0.5; accepted: null, 0");
  expect("/model/unk_token", "[UNK]", ErrorKind::bad_file, "model: vocab: the unk_token '[UNK]' is not in it");
  expect("/model/unk_token", 1, ErrorKind::bad_file, "model: 'unk_token' is 1; accepted: a string");
  expect("/model/unk_token", "", ErrorKind::bad_file,
         "model: 'unk_token' is \"\"; accepted: null, or a token that is not empty");
  expect("/model/fuse_unk", 1, ErrorKind::bad_file, "model: 'fuse_unk' is 1; accepted: true, false");
  expect("/model/merges/0/1", "c", ErrorKind::bad_file, "model: merges: 0: 'c' is not in the vocabulary");
}

}  // namespace
}  // namespace stof
