// SPDX-License-Identifier: Apache-2.0
// tokenizer.json as older programs wrote it, which is how bert-base-uncased, gpt2 and roberta-base still have it:
// models without a type, merges as texts, keys that came later left out. Ids are those of the file in today's words.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/model/tokenizer.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

json tokenizer_of(const std::string& family) {
  return json::parse(
      read_bytes(std::filesystem::path(STOF_SOURCE_DIR) / "tests/data/families" / family / "tokenizer.json"));
}

json merges_as_texts(const json& merges) {
  json texts = json::array();
  for (const json& merge : merges)
    texts.push_back(merge.is_array() ? merge[0].get<std::string>() + " " + merge[1].get<std::string>()
                                     : merge.get<std::string>());
  return texts;
}

void make_old(json& tree) {
  json& model = tree["model"];
  for (const char* key : {"type", "byte_fallback", "ignore_merges"}) model.erase(key);
  if (model.contains("merges")) model["merges"] = merges_as_texts(model["merges"]);
  for (const char* part : {"pre_tokenizer", "post_processor", "decoder"})
    if (tree[part].is_object()) tree[part].erase("use_regex");
}

class OldTokenizer : public testing::Test {
 protected:
  std::vector<Ids> ids(const json& tree) {
    write_bytes(folder_ / "tokenizer.json", tree.dump());
    const Tokenizer tokenizer = Tokenizer::load(folder_.path());
    std::vector<Ids> all;
    for (const char* text : {"The bread rises, doesn't it?", "  two  spaces\n1234", "caf\xc3\xa9 <mask> [MASK]", ""})
      all.push_back(tokenizer.encode(text));
    return all;
  }
  void expect_refused(const json& model, const std::string& message) {
    json tree = tokenizer_of("distilbert");
    tree["model"] = model;
    EXPECT_ERROR(ids(tree), ErrorKind::unsupported, (folder_ / "tokenizer.json").string() + ": " + message);
  }
  TemporaryFolder folder_;
};

TEST_F(OldTokenizer, MakesTheIdsOfTodays) {
  for (const char* family : {"distilbert", "gpt2", "roberta"}) {
    const json today = tokenizer_of(family);
    json old = today;
    make_old(old);
    EXPECT_FALSE(old["model"].contains("type"));
    EXPECT_EQ(ids(old), ids(today)) << family;
  }
}

TEST_F(OldTokenizer, PartsThatAreMissingAreNone) {
  json tree = tokenizer_of("gpt2");
  for (const char* part : {"normalizer", "post_processor", "decoder", "truncation", "padding"}) tree[part] = nullptr;
  const std::vector<Ids> expected = ids(tree);
  for (const char* part : {"normalizer", "post_processor", "decoder", "truncation", "padding"}) tree.erase(part);
  EXPECT_EQ(ids(tree), expected);
  tree["normalizer"] = {{"type", "Sequence"}, {"normalizers", json::array()}};
  EXPECT_EQ(ids(tree), expected);
  tree["added_tokens"] = json::array();
  const std::vector<Ids> without_added = ids(tree);
  tree.erase("added_tokens");
  EXPECT_EQ(ids(tree), without_added);
}

TEST_F(OldTokenizer, ModelsAreKnownByWhatTheyHave) {
  expect_refused({{"vocab", json::array({json::array({"a", 0.5})})}},
                 "normalizer: type BertNormalizer; accepted: Precompiled");
  json tree = tokenizer_of("distilbert");
  tree["model"] = {{"vocab", {{"a", 0}}}, {"unk_token", "a"}};
  EXPECT_ERROR(ids(tree), ErrorKind::bad_file, (folder_ / "tokenizer.json").string() + ": model: 'type' is missing");
}

}  // namespace
}  // namespace stof
