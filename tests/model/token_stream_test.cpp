// SPDX-License-Identifier: Apache-2.0
// Texts of ids: each kind of decoder in tokenizer.json, by texts that the Python package `tokenizers` gave, and what is
// refused.
#include "src/model/token_stream.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/model/unicode.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

#define MARK "\xe2\x96\x81"
#define LOST "\xef\xbf\xbd"  // U+FFFD

const json kReplace = {{"type", "Replace"}, {"pattern", {{"String", MARK}}}, {"content", " "}};
const json kStrip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
const json kFallback = {{"type", "Sequence"},
                        {"decoders", {kReplace, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}, kStrip}}};
const json kBytes = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};

json metaspace(const std::string& scheme) {
  return {{"type", "Metaspace"}, {"replacement", MARK}, {"prepend_scheme", scheme}, {"split", false}};
}
json pieces(bool cleanup) { return {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", cleanup}}; }

json added(const std::string& content, int id, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

class DecoderJson : public testing::Test {
 protected:
  // Of a model whose tokens are these.
  Tokenizer load(const json& decoder, const std::vector<std::string>& tokens) {
    json vocab = json::object();
    for (std::size_t i = 0; i < tokens.size(); ++i) vocab[tokens[i]] = i;
    return load({{"decoder", decoder}}, vocab, json::array());
  }
  // <s> is special, <t> is added and is not.
  Tokenizer load_with_added(const json& decoder) {
    return load({{"decoder", decoder}}, {{"a", 0}, {"<0xE4>", 1}, {"<0xB8>", 2}, {"<0xAD>", 3}},
                {added("<s>", 4, true), added("<t>", 5, false)});
  }
  Tokenizer load(json tree, const json& vocab, const json& added_tokens) {
    tree.update({{"version", "1.0"},
                 {"added_tokens", added_tokens},
                 {"normalizer", nullptr},
                 {"pre_tokenizer", metaspace("never")},
                 {"post_processor", nullptr},
                 {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", json::array()}}}});
    write_bytes(folder_ / "tokenizer.json", tree.dump());
    return Tokenizer::load(folder_.path());
  }
  void expect_refused(const json& decoder, const std::string& message) {
    const Tokenizer tokenizer = load(decoder, {"a"});
    EXPECT_EQ(tokenizer.encode("a"), (Ids{0}));
    EXPECT_ERROR(tokenizer.decode(Ids{0}), ErrorKind::unsupported, (folder_ / "tokenizer.json").string() + message);
    EXPECT_ERROR(TokenStream{tokenizer}, ErrorKind::unsupported, (folder_ / "tokenizer.json").string() + message);
  }
  TemporaryFolder folder_;
};

TEST_F(DecoderJson, OfBytes) {
  const Tokenizer tokenizer =
      load(kBytes, {"a", "\xc3\xa4", "\xc2\xb8", "\xc5\x83", "\xc3\xbf", "\xc3\xa9" MARK, "\xc4\xa0"});
  EXPECT_EQ(tokenizer.decode(Ids{6, 0, 1, 2, 3}), " a\xe4\xb8\xad");
  EXPECT_EQ(tokenizer.decode(Ids{1, 2, 0}), LOST "a");
  EXPECT_EQ(tokenizer.decode(Ids{1, 2}), LOST);
  EXPECT_EQ(tokenizer.decode(Ids{1, 1, 2, 3, 2}), LOST "\xe4\xb8\xad" LOST);
  EXPECT_EQ(tokenizer.decode(Ids{4, 4}), LOST LOST);
  EXPECT_EQ(tokenizer.decode(Ids{5}), "\xc3\xa9" MARK);
  EXPECT_EQ(tokenizer.decode({}), "");
}

TEST_F(DecoderJson, WithByteFallback) {
  const Tokenizer tokenizer = load(kFallback, {"a", MARK, MARK MARK "c", "<0xE4>", "<0xB8>", "<0xAD>", "<0xff>",
                                               "<0x+5>", "<0x20>", MARK "<0x41>", " ", "<0x4g>"});
  EXPECT_EQ(tokenizer.decode(Ids{1, 0, 1, 0}), "a a");
  EXPECT_EQ(tokenizer.decode(Ids{2, 1}), " c ");
  EXPECT_EQ(tokenizer.decode(Ids{3, 4, 5}), "\xe4\xb8\xad");
  EXPECT_EQ(tokenizer.decode(Ids{3, 4, 5, 6, 0}), LOST LOST LOST LOST "a");
  EXPECT_EQ(tokenizer.decode(Ids{7, 9, 11}), "\x05 <0x41><0x4g>");
  EXPECT_EQ(tokenizer.decode(Ids{8}), "");
  EXPECT_EQ(tokenizer.decode(Ids{10, 8, 1}), "  ");
  json kept = kFallback;
  kept["decoders"].erase(3);
  EXPECT_EQ(load(kept, {"a", MARK}).decode(Ids{1, 0}), " a");
}

TEST_F(DecoderJson, OfMarkedSpaces) {
  const std::vector<std::string> tokens = {"a", MARK, MARK MARK "c"};
  for (const char* scheme : {"first", "always"}) {
    EXPECT_EQ(load(metaspace(scheme), tokens).decode(Ids{2, 2}), "c  c");
    EXPECT_EQ(load(metaspace(scheme), tokens).decode(Ids{1, 1, 0}), " a");
  }
  EXPECT_EQ(load(metaspace("never"), tokens).decode(Ids{2, 2}), "  c  c");
  EXPECT_EQ(load({{"type", "Metaspace"}, {"replacement", MARK}}, tokens).decode(Ids{1, 0}), "a");
}

TEST_F(DecoderJson, OfPieces) {
  const std::vector<std::string> tokens = {"a", "##a", "##", "##b##", " ' ", "n't", "do not", ".", " do not . ? ' x"};
  const Tokenizer clean = load(pieces(true), tokens), plain = load(pieces(false), tokens);
  EXPECT_EQ(clean.decode(Ids{1, 1, 2, 3}), "##aab##");
  EXPECT_EQ(clean.decode(Ids{0, 4, 0}), "a ' a");
  EXPECT_EQ(plain.decode(Ids{0, 4, 0}), "a  '  a");
  EXPECT_EQ(clean.decode(Ids{0, 5, 6, 7}), "an't don't.");
  EXPECT_EQ(plain.decode(Ids{0, 5, 6, 7}), "a n't do not .");
  EXPECT_EQ(clean.decode(Ids{8, 8}), " don't.?'x  don't.?'x");
}

TEST_F(DecoderJson, WithoutDecoder) {
  EXPECT_EQ(load(nullptr, {"a", "", MARK}).decode(Ids{0, 1, 0, 2}), "a  a " MARK);
  EXPECT_EQ(load(json::object(), {{"a", 0}}, json::array()).decode(Ids{0, 0}), "a a");
}

TEST_F(DecoderJson, SpecialTokens) {
  const Tokenizer spaced = load_with_added(nullptr), falling_back = load_with_added(kFallback);
  EXPECT_EQ(spaced.decode(Ids{4, 0, 4, 5}), "a <t>");
  EXPECT_EQ(spaced.decode(Ids{4, 0, 4, 5}, {.special = SpecialTokens::kept}), "<s> a <s> <t>");
  EXPECT_EQ(falling_back.decode(Ids{1, 4, 2, 3}), "\xe4\xb8\xad");
  EXPECT_EQ(falling_back.decode(Ids{1, 4, 2, 3}, {.special = SpecialTokens::kept}), LOST "<s>" LOST LOST);
}

TEST_F(DecoderJson, GivesWhatIsCertain) {
  const Tokenizer bytes = load(kBytes, {"a", "\xc3\xa4", "\xc2\xb8", "\xc5\x83"});
  TokenStream stream(bytes);
  EXPECT_EQ(stream.add(0), "a");
  EXPECT_EQ(stream.add(1), "");
  EXPECT_EQ(stream.add(2), "");
  EXPECT_EQ(stream.add(3), "\xe4\xb8\xad");
  EXPECT_EQ(stream.add(1), "");
  EXPECT_EQ(stream.add(0), LOST "a");
  EXPECT_EQ(stream.add(1), "");
  EXPECT_ERROR(stream.add(4), ErrorKind::invalid_argument,
               "id 4 has no token; accepted: ids of the 4 tokens of the vocabulary, up to 3");
  EXPECT_EQ(stream.finish(), LOST);
  EXPECT_EQ(stream.finish(), "");
  const Tokenizer characters = load(kFallback, {MARK "a", "<0xE4>", "<0xB8>", "<0xAD>"});
  TokenStream falling_back(characters);
  for (int text = 0; text < 2; ++text) {
    EXPECT_EQ(falling_back.add(0), "a");
    for (const std::int32_t id : {1, 2, 3}) EXPECT_EQ(falling_back.add(id), "");
    EXPECT_EQ(falling_back.add(0), "\xe4\xb8\xad a");
    EXPECT_EQ(falling_back.add(1), "");
    EXPECT_EQ(falling_back.finish(), LOST);
  }
}

TEST_F(DecoderJson, RefusesIdsWithoutToken) {
  const Tokenizer tokenizer = load({{"decoder", nullptr}}, {{"a", 1}, {"b", 5}, {"c", 2147483646}}, json::array());
  EXPECT_EQ(tokenizer.decode(Ids{5, 2147483646, 1}), "b c a");
  for (const std::int32_t id : {-1, 0, 2, 4, 6, 2147483645, 2147483647})
    EXPECT_ERROR(
        tokenizer.decode(Ids{1, id}), ErrorKind::invalid_argument,
        fmt::format("id {} has no token; accepted: ids of the 3 tokens of the vocabulary, up to 2147483646", id));
  EXPECT_ERROR(load(nullptr, {}).decode(Ids{0}), ErrorKind::invalid_argument,
               "id 0 has no token; accepted: ids of the 0 tokens of the vocabulary, up to -1");
}

TEST_F(DecoderJson, RefusesOtherDecoders) {
  expect_refused({{"type", "BPEDecoder"}},
                 ": decoder: type BPEDecoder; accepted: ByteLevel, Sequence, Metaspace, WordPiece");
  expect_refused({{"type", "ByteLevel"}, {"x", 1}},
                 ": decoder: 'x' is not understood; accepted: type, add_prefix_space, trim_offsets, use_regex");
  expect_refused({{"type", "WordPiece"}, {"prefix", "##"}}, ": decoder: 'cleanup' is missing");
  expect_refused(5, ": decoder: 5; accepted: an object");
  expect_refused({{"type", "Metaspace"}, {"replacement", "_"}}, R"(: decoder: 'replacement' is "_"; accepted: )" MARK);
  expect_refused({{"type", "Metaspace"}, {"replacement", MARK}, {"prepend_scheme", "last"}},
                 R"(: decoder: 'prepend_scheme' is "last"; accepted: always, first, never)");
  json order = kFallback;
  std::swap(order["decoders"][2], order["decoders"][3]);
  order["decoders"].erase(0);
  expect_refused(
      order, R"(: decoder: 'decoders' is [{"type":"ByteFallback"},{"content":" ","start":1,"stop":0,"...; accepted: )" +
                 kFallback["decoders"].dump() + ", or without the last");
}

TEST_F(DecoderJson, OfVocabularyFile) {
  write_bytes(folder_ / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nab\n##c\n.\nab\n");
  const Tokenizer tokenizer = Tokenizer::load(folder_.path());
  EXPECT_EQ(tokenizer.decode(Ids{2, 8, 6, 8, 7, 3}), "abc ab.");
  EXPECT_EQ(tokenizer.decode(Ids{2, 8, 6, 7, 3}, {.special = SpecialTokens::kept}), "[CLS] abc. [SEP]");
  EXPECT_ERROR(tokenizer.decode(Ids{5}), ErrorKind::invalid_argument,
               "id 5 has no token; accepted: ids of the 8 tokens of the vocabulary, up to 8");
}

TEST(TokenTexts, LastTokenOfAnIdCounts) {
  for (const std::int32_t id : {4, 2000}) {  // without large gaps and with
    const std::vector<TokenTexts::Token> tokens = {
        {.text = "long", .id = id}, {.text = "a", .id = 3, .special = true}, {.text = "b", .id = id}};
    const TokenTexts texts(tokens);
    EXPECT_EQ(texts.find(id)->text, "b");
    EXPECT_FALSE(texts.find(id)->special);
    EXPECT_EQ(texts.find(3)->text, "a");
    EXPECT_TRUE(texts.find(3)->special);
    EXPECT_FALSE(texts.find(2));
    EXPECT_EQ(texts.size(), 2u);
    EXPECT_EQ(texts.last_id(), id);
  }
}

}  // namespace
}  // namespace stof
