// SPDX-License-Identifier: Apache-2.0
// Ids and words of byte-level BPE equal those of the Python package `tokenizers`, on more than 2,000 strings and on
// every Unicode scalar value in several surroundings (tools/make_byte_level_reference.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "src/model/byte_level.h"
#include "src/model/tokenizer.h"
#include "src/model/unicode.h"
#include "tests/model/token_hash.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

using nlohmann::json;

const std::filesystem::path kData = std::filesystem::path(STOF_SOURCE_DIR) / "tests/data";

json reference() { return json::parse(read_bytes(kData / "byte_level.json")); }

// A tokenizer of tests/data/families with a split and added tokens of its own.
class Variant {
 public:
  explicit Variant(const json& options) : pattern_(options.at("pattern")) {
    json tree =
        json::parse(read_bytes(kData / "families" / options.at("family").get<std::string>() / "tokenizer.json"));
    tree["pre_tokenizer"]["add_prefix_space"] = options.at("add_prefix_space");
    for (const json& token : options.at("added_tokens")) tree["added_tokens"].push_back(token);
    write_bytes(folder_ / "tokenizer.json", tree.dump());
    tokenizer_.emplace(Tokenizer::load(folder_.path()));
  }

  void add(std::string_view text, TokenHash& hash) const {
    hash.add(tokenizer_->encode(text));
    std::vector<std::uint32_t> words;  // the bytes of each
    for (; !text.empty(); text.remove_prefix(words.back()))
      words.push_back(static_cast<std::uint32_t>(first_word(text)));
    hash.add(words);
  }
  std::string hash(std::string_view text) const {
    TokenHash hash;
    add(text, hash);
    return hash.hex();
  }
  // Over the scalars [first, end), each in place of every % of the pattern.
  std::string hash_of_scalars(char32_t first, char32_t end) const {
    TokenHash hash;
    for (char32_t c = first; c < end; ++c) {
      if (0xD800 <= c && c < 0xE000) continue;
      std::string text;
      for (const char character : pattern_)
        if (character == '%') unicode::append(text, c);
        else text += character;
      add(text, hash);
    }
    return hash.hex();
  }

 private:
  std::string pattern_;
  TemporaryFolder folder_;
  std::optional<Tokenizer> tokenizer_;
};

constexpr std::size_t kVariants = 3;

class EveryByteLevel : public testing::TestWithParam<std::size_t> {
 protected:
  json tree_ = reference();
  json options_ = tree_.at("variants").at(GetParam());
  Variant variant_{options_};
};
INSTANTIATE_TEST_SUITE_P(ByteLevelReference, EveryByteLevel, testing::Range<std::size_t>(0, kVariants));

// The strings are those of token_ids.txt, one in three lines of it.
TEST_P(EveryByteLevel, AgreesOnEveryString) {
  ASSERT_EQ(tree_.at("variants").size(), kVariants);
  std::ifstream file(kData / "token_ids.txt");
  std::size_t strings = 0;
  for (std::string text, ids, hashes; std::getline(file, text) && std::getline(file, ids) && std::getline(file, hashes);
       ++strings) {
    ASSERT_LT(strings, options_.at("strings").size());
    EXPECT_EQ(variant_.hash(json::parse(text).get<std::string>()), options_.at("strings")[strings]) << text;
  }
  EXPECT_EQ(strings, options_.at("strings").size());
  EXPECT_GE(strings, 2000u);
}

TEST_P(EveryByteLevel, AgreesOnEveryScalar) {
  constexpr char32_t kBlock = 4096;
  const json& blocks = options_.at("scalars");
  ASSERT_EQ(blocks.size(), 0x110000u / kBlock);
  for (char32_t block = 0; block < 0x110000 / kBlock; ++block)
    EXPECT_EQ(variant_.hash_of_scalars(block * kBlock, (block + 1) * kBlock), blocks[block])
        << fmt::format("U+{:04X} to U+{:04X}", static_cast<std::uint32_t>(block * kBlock),
                       static_cast<std::uint32_t>((block + 1) * kBlock - 1));
}

}  // namespace
}  // namespace stof
