// SPDX-License-Identifier: Apache-2.0
// What of a tokenizer.json with a model of type Unigram is refused; its ids: bpe_reference_test.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "src/model/character_map.h"
#include "src/model/tokenizer.h"
#include "src/model/unigram.h"
#include "tests/expect_error.h"
#include "tests/source_folder.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

using nlohmann::json;

class UnigramFiles : public testing::Test {
 protected:
  void expect(const std::string& place, const json& value, ErrorKind kind, const std::string& message) {
    json changed = tree_;
    changed[json::json_pointer(place)] = value;
    write_bytes(folder_ / "tokenizer.json", changed.dump());
    EXPECT_ERROR(Tokenizer::load(folder_.path()), kind, (folder_ / "tokenizer.json").string() + ": " + message);
  }
  TemporaryFolder folder_;
  json tree_ = json::parse(read_bytes(source_folder() / "tests/data/families/xlm_roberta/tokenizer.json"));
};

TEST_F(UnigramFiles, RefusesWhatIsNotDone) {
  expect("/model/byte_fallback", true, ErrorKind::unsupported, "model: 'byte_fallback' is true; accepted: false");
  expect("/pre_tokenizer/pretokenizers/1/prepend_scheme", "first", ErrorKind::unsupported,
         R"(pre_tokenizer: pretokenizer 1: 'prepend_scheme' is "first"; accepted: always, never with a model of type )"
         "Unigram");
  expect("/pre_tokenizer/pretokenizers/0/type", "Whitespace", ErrorKind::unsupported,
         R"(pre_tokenizer: 'pretokenizers' is [{"type":"Whitespace"},{"prepend_scheme":"always","replaceme...; )"
         "accepted: an array of a WhitespaceSplit and a Metaspace");
  expect("/normalizer", {{"type", "NFKC"}}, ErrorKind::unsupported, "normalizer: type NFKC; accepted: Precompiled");
  expect(
      "/normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "Lowercase"}}}}}, ErrorKind::unsupported,
      R"(normalizer: normalizer 0 is {"type":"Lowercase"}; accepted: Precompiled, {"strip_left":false,)"
      R"("strip_right":true,"type":"Strip"}, {"content":"▁","pattern":{"Regex":" {2,}"},"type":"Replace"} or with a )"
      "space, in this order");
}

TEST_F(UnigramFiles, RefusesWhatIsBroken) {
  expect("/model/vocab", json::array(), ErrorKind::bad_file,
         "model: 'vocab' is []; accepted: an array of pieces with scores");
  expect("/model/vocab/7", {"a"}, ErrorKind::bad_file, R"(model: vocab: 7 is ["a"]; accepted: a piece and its score)");
  expect("/model/vocab/7", {"<s>", 0}, ErrorKind::bad_file,
         R"(model: vocab: 7 is ["<s>",0], which stands before; accepted: each piece once)");
  expect("/model/unk_id", 800, ErrorKind::bad_file, "model: 'unk_id' is 800; accepted: an integer from 0 to 799");
  expect("/model/unk_id", nullptr, ErrorKind::bad_file, "model: 'unk_id' is null; accepted: an integer from 0 to 799");
  expect("/normalizer/precompiled_charsmap", "AA*A", ErrorKind::bad_file,
         R"(normalizer: 'precompiled_charsmap' is "AA*A"; accepted: base64)");
  expect(
      "/normalizer/precompiled_charsmap", "CAAAAAAAAAA=", ErrorKind::bad_file,
      "normalizer: precompiled_charsmap: a map of 8 bytes, of which 8 are its array; accepted: a multiple of 4, from 4 "
      "on, that fits");
}

// Words of a BERT's tokenizer say nothing of it; sentence-transformers' own lowercasing does.
TEST_F(UnigramFiles, BesideABert) {
  write_bytes(folder_ / "tokenizer.json", tree_.dump());
  const std::vector<std::int32_t> ids = Tokenizer::load(folder_.path()).encode("A Storm is coming");
  write_bytes(folder_ / "tokenizer_config.json", R"({"tokenizer_class":"BertTokenizer","do_lower_case":false})");
  EXPECT_EQ(Tokenizer::load(folder_.path()).encode("A Storm is coming"), ids);
  EXPECT_NE(Tokenizer::load(folder_.path()).encode("a storm is coming"), ids);
  write_bytes(folder_ / "sentence_bert_config.json", R"({"do_lower_case":true})");
  EXPECT_ERROR(Tokenizer::load(folder_.path()), ErrorKind::unsupported,
               (folder_ / "sentence_bert_config.json").string() +
                   ": 'do_lower_case' is true; accepted: false, or a tokenizer that lowercases by itself");
}

// Units that lead out of the array, and texts that begin inside a character: as if there were nothing.
TEST(CharacterMap, OfADamagedArrayReplacesNothing) {
  for (const std::uint32_t unit : {0xFFFFFFFFU, 0x7FFFFFFFU, 256U << 10, 1U << 9 | 1U << 30, 0U}) {
    std::string compiled(4 + 4 * 512 + 3, '\0');
    const std::uint32_t bytes = 4 * 512;
    std::memcpy(compiled.data(), &bytes, 4);
    for (std::size_t i = 0; i < 512; ++i) std::memcpy(compiled.data() + 4 + 4 * i, &unit, 4);
    compiled.replace(4 + bytes, 2, "é");
    std::string out;
    CharacterMap(compiled, "file").append("a storm, é 中", out);
    EXPECT_EQ(out, "a storm, é 中") << unit;
  }
  std::string compiled(4 + 4 + 1, '\0');
  compiled[0] = 4;
  compiled[8] = '\xff';
  EXPECT_ERROR(CharacterMap(compiled, "file"), ErrorKind::bad_file, "file: its texts are not UTF-8");
}

// Of equal ways the one whose last piece begins first; of unknown characters together one.
TEST(Unigram, TakesTheLikeliestPieces) {
  const Unigram model({.pieces = {{"?", 0}, {"a", 1}, {"b", 2}, {"ab", 3}, {"ba", 4}, {"xy", 5}},
                       .scores = {0, -1, -1, -2, -3, -40},
                       .unknown = 0});
  const auto ids = [&](std::string_view text) {
    std::vector<std::int32_t> found{9};
    model.append_ids(text, found);
    return found;
  };
  EXPECT_EQ(ids(""), (std::vector<std::int32_t>{9}));
  EXPECT_EQ(ids("ab"), (std::vector<std::int32_t>{9, 3}));
  EXPECT_EQ(ids("ba"), (std::vector<std::int32_t>{9, 2, 1}));
  EXPECT_EQ(ids("é中a"), (std::vector<std::int32_t>{9, 0, 1}));
  EXPECT_EQ(ids("axyb"), (std::vector<std::int32_t>{9, 1, 5, 2}));
}

}  // namespace
}  // namespace stof
