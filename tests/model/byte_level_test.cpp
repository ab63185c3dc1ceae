// SPDX-License-Identifier: Apache-2.0
#include "src/model/byte_level.h"

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

TEST(ByteLevel, NamesEveryByteOnce) {
  EXPECT_EQ(ByteLevel::token_of('A'), "A");
  EXPECT_EQ(ByteLevel::token_of(' '), "\xc4\xa0");  // U+0120, as vocabularies have it
  EXPECT_EQ(ByteLevel::token_of('\n'), "\xc4\x8a");
  EXPECT_EQ(ByteLevel::token_of(0xAD), "\xc5\x83");  // the last of the 68
  std::set<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.insert(ByteLevel::token_of(static_cast<unsigned char>(byte)));
  EXPECT_EQ(tokens.size(), 256u);
}

TEST(ByteLevel, FindsTheBytesOfATokenAgain) {
  const auto bytes_of = [](std::string_view token) {
    std::string bytes = "before ";
    const bool are_there = ByteLevel::append_bytes(token, bytes);
    EXPECT_EQ(are_there, ByteLevel::stands_for(token, bytes.substr(7)));
    return are_there ? bytes : bytes + "none";
  };
  for (int byte = 0; byte < 256; ++byte)
    EXPECT_EQ(bytes_of(ByteLevel::token_of(static_cast<unsigned char>(byte))),
              std::string("before ") + static_cast<char>(byte));
  EXPECT_EQ(bytes_of("\xc4\xa0"
                     "ab"),
            "before  ab");
  EXPECT_EQ(bytes_of("a b"), "before none");
  EXPECT_EQ(bytes_of("\xe2\x96\x81"), "before none");
  EXPECT_FALSE(ByteLevel::stands_for("ab", "a"));
  EXPECT_FALSE(ByteLevel::stands_for("a", "ab"));
  EXPECT_FALSE(ByteLevel::stands_for("ab", "ac"));
}

TEST(ByteWords, AreFoundByTheirBytes) {
  std::vector<std::string> words;
  for (int i = 0; i < 1000; ++i) words.push_back("\xc4\xa0" + std::to_string(i * i));  // U+0120 for a space
  words.emplace_back("\xe2\x96\x81");
  std::vector<TokenTexts::Token> tokens;
  for (const std::string& word : words)
    tokens.push_back({.text = word, .id = 3 * static_cast<std::int32_t>(tokens.size())});
  const ByteWords found(std::make_shared<const TokenTexts>(tokens), tokens);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(found.find(" " + std::to_string(i * i)), 3 * i);
  for (const char* other : {"", " ", "4", " 5", "\xe2\x96\x81"}) EXPECT_EQ(found.find(other), std::nullopt);
  EXPECT_TRUE(ByteWords().empty());
}

BytePairs pairs(const std::vector<Merge>& merges) { return BytePairs(merges); }

// Bytes have their own values as ids.
Ids merged(const BytePairs& of, std::string_view word) {
  BytePairs::Work work;
  Ids ids;
  for (const char byte : word) work.add(byte);
  of.append_ids(work, ids);
  return ids;
}

TEST(BytePairs, MergeTheFirstOfTheListThenTheLeftmost) {
  const BytePairs some = pairs({{'b', 'c', 300}, {'a', 'b', 301}, {'a', 300, 302}, {'a', 'a', 303}});
  EXPECT_EQ(merged(some, "abc"), (Ids{302}));
  EXPECT_EQ(merged(some, "abab"), (Ids{301, 301}));
  EXPECT_EQ(merged(some, "aaa"), (Ids{303, 'a'}));
  EXPECT_EQ(merged(some, "aaaaa"), (Ids{303, 303, 'a'}));
  EXPECT_EQ(merged(some, "bcbca"), (Ids{300, 300, 'a'}));
  EXPECT_EQ(merged(some, ""), Ids{});
  EXPECT_EQ(merged(pairs({}), "ab"), (Ids{'a', 'b'}));
  EXPECT_EQ(merged(pairs({{'a', 'b', 300}, {'b', 'c', 301}, {'a', 'b', 302}}), "abc"), (Ids{'a', 301}));
}

// A word of a million bytes takes no longer than a million short ones: nothing here is quadratic.
TEST(BytePairs, TakeLongWords) {
  std::vector<Merge> merges;
  for (std::int32_t level = 0; level < 16; ++level)
    merges.push_back({level == 0 ? 'a' : 299 + level, level == 0 ? 'a' : 299 + level, 300 + level});
  EXPECT_EQ(merged(pairs(merges), std::string(std::size_t{1} << 20, 'a')), Ids(16, 315));
}

json small_tokenizer() {
  json vocab = json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[ByteLevel::token_of(static_cast<unsigned char>(byte))] = byte;
  vocab["<s>"] = 256;
  vocab["</s>"] = 257;
  vocab["ab"] = 258;
  vocab
      ["\xc4\xa0"
       "ab"] = 259;
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}}},
          {"post_processor",
           {{"type", "RobertaProcessing"},
            {"sep", {"</s>", 257}},
            {"cls", {"<s>", 256}},
            {"trim_offsets", true},
            {"add_prefix_space", false}}},
          {"decoder", nullptr},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", ""},
            {"fuse_unk", false},
            {"vocab", vocab},
            {"merges", {"a b", {"\xc4\xa0", "ab"}}}}}};
}

class ByteLevelJson : public testing::Test {
 protected:
  Tokenizer load(const std::string& pointer = "/version", const json& value = "1.0") {
    json tree = small_tokenizer();
    tree[Pointer(pointer)] = value;
    write_bytes(folder_ / "tokenizer.json", tree.dump());
    return Tokenizer::load(folder_.path());
  }
  void expect(const std::string& pointer, const json& value, ErrorKind kind, const std::string& message) {
    EXPECT_ERROR(load(pointer, value), kind, (folder_ / "tokenizer.json").string() + ": " + message);
  }
  TemporaryFolder folder_;
};

TEST_F(ByteLevelJson, Reads) {
  EXPECT_EQ(load().encode("ab abc"), (Ids{256, 258, 259, 'c', 257}));
  EXPECT_EQ(load("/pre_tokenizer/add_prefix_space", true).encode("ab  ab"), (Ids{256, 259, ' ', 259, 257}));
  EXPECT_EQ(load("/post_processor", {{"type", "ByteLevel"}, {"trim_offsets", false}}).encode("ab"), (Ids{258}));
  EXPECT_EQ(load("/post_processor", nullptr).encode(""), Ids{});
  EXPECT_EQ(load("/model/dropout", 0).encode("ab"), (Ids{256, 258, 257}));
  EXPECT_EQ(load().encode("ab ab", 3).ids, (Ids{256, 258, 257}));
}

TEST_F(ByteLevelJson, RefusesOtherParts) {
  expect("/normalizer", {{"type", "NFKC"}}, ErrorKind::unsupported,
         R"('normalizer' is {"type":"NFKC"}; accepted: null, {"type":"NFC"} with a model of type BPE)");
  expect("/pre_tokenizer/type", "BertPreTokenizer", ErrorKind::unsupported,
         "pre_tokenizer: type BertPreTokenizer; accepted: ByteLevel, Sequence, Split, Metaspace");
  expect("/pre_tokenizer/use_regex", false, ErrorKind::unsupported,
         "pre_tokenizer: 'use_regex' is false; accepted: true");
  expect("/pre_tokenizer/pattern", 1, ErrorKind::unsupported,
         "pre_tokenizer: 'pattern' is not understood; accepted: type, add_prefix_space, trim_offsets, use_regex");
  expect("/model/dropout", 0.1, ErrorKind::unsupported, "model: 'dropout' is 0.1; accepted: null, 0");
  expect("/model/end_of_word_suffix", "</w>", ErrorKind::unsupported,
         R"(model: 'end_of_word_suffix' is "</w>"; accepted: null, "")");
  expect("/model/continuing_subword_prefix", "##", ErrorKind::unsupported,
         R"(model: 'continuing_subword_prefix' is "##"; accepted: null, "")");
  expect("/model/byte_fallback", true, ErrorKind::unsupported, "model: 'byte_fallback' is true; accepted: false");
  expect("/model/alphabet", 1, ErrorKind::unsupported,
         "model: 'alphabet' is not understood; accepted: type, unk_token, fuse_unk, dropout, "
         "continuing_subword_prefix, end_of_word_suffix, byte_fallback, ignore_merges, vocab, merges");
}

TEST_F(ByteLevelJson, RefusesVocabulariesAndMerges) {
  json vocab = small_tokenizer()["model"]["vocab"];
  vocab.erase("\xc4\xa0");
  expect("/model/vocab", vocab, ErrorKind::bad_file,
         "model: vocab: '\xc4\xa0' for byte 32 is missing; accepted: a vocabulary with every byte");
  expect("/model/vocab/ab", -1, ErrorKind::bad_file,
         "model: vocab: 'ab': id -1; accepted: an integer from 0 to 2147483646");
  expect("/model/merges", "a b", ErrorKind::bad_file, R"(model: 'merges' is "a b"; accepted: an array)");
  expect("/model/merges/1", "ab", ErrorKind::bad_file, R"(model: merges: 1 is "ab"; accepted: two tokens)");
  expect("/model/merges/1", "a b c", ErrorKind::bad_file, R"(model: merges: 1 is "a b c"; accepted: two tokens)");
  expect("/model/merges/0", {"a", 1}, ErrorKind::bad_file, R"(model: merges: 0 is ["a",1]; accepted: two tokens)");
  expect("/model/merges/0", "a xy", ErrorKind::bad_file, "model: merges: 0: 'xy' is not in the vocabulary");
  expect("/model/merges/1", "b a", ErrorKind::bad_file, "model: merges: 1: 'ba' is not in the vocabulary");
}

}  // namespace
}  // namespace stof
