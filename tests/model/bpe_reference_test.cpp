// SPDX-License-Identifier: Apache-2.0
// Ids and words of BPE, and ids of Unigram and of MPNet's word pieces, equal those of the Python package `tokenizers`,
// on more than 2,000 strings and on every Unicode scalar value in several surroundings (tools/make_bpe_reference.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "src/model/tokenizer.h"
#include "src/model/unicode.h"
#include "src/model/word_split.h"
#include "tests/model/token_hash.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

using nlohmann::json;

const std::filesystem::path kData = std::filesystem::path(STOF_SOURCE_DIR) / "tests/data";

json reference() { return json::parse(read_bytes(kData / "bpe.json")); }

std::optional<WordSplit> split_of(const json& options) {
  const std::string name = options.value("split", "none");
  if (name == "gpt2") return WordSplit::gpt2;
  if (name == "llama3") return WordSplit::llama3;
  if (name == "qwen2") return WordSplit::qwen2;
  if (name == "gpt4o") return WordSplit::gpt4o;
  return {};
}

// A tokenizer of tests/data with changes.
class Variant {
 public:
  explicit Variant(const json& options) : pattern_(options.at("pattern")), split_(split_of(options)) {
    const json tree = json::parse(read_bytes(kData / options.at("file").get<std::string>()));
    json changed = tree.patch(options.at("changes"));
    if (options.contains("merges")) {
      json& merges = changed["model"]["merges"];
      merges.erase(merges.begin() + options.at("merges").get<std::ptrdiff_t>(), merges.end());
    }
    write_bytes(folder_ / "tokenizer.json", changed.dump());
    tokenizer_.emplace(Tokenizer::load(folder_.path()));
  }

  void add(std::string_view text, TokenHash& hash) const {
    hash.add(tokenizer_->encode(text));
    if (!split_) return;
    std::vector<std::uint32_t> words;  // the bytes of each
    for (; !text.empty(); text.remove_prefix(words.back()))
      words.push_back(static_cast<std::uint32_t>(first_word(text, *split_)));
    hash.add(words);
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
  std::optional<WordSplit> split_;
  TemporaryFolder folder_;
  std::optional<Tokenizer> tokenizer_;
};

constexpr std::size_t kVariants = 23;

class EveryBpe : public testing::TestWithParam<std::size_t> {
 protected:
  json tree_ = reference();
  json options_ = tree_.at("variants").at(GetParam());
  Variant variant_{options_};
};
INSTANTIATE_TEST_SUITE_P(BpeReference, EveryBpe, testing::Range<std::size_t>(0, kVariants));

// The strings are those of token_ids.txt, one in three lines of it, in groups.
TEST_P(EveryBpe, AgreesOnEveryString) {
  constexpr std::size_t kGroup = 16;
  ASSERT_EQ(tree_.at("variants").size(), kVariants);
  std::vector<std::string> texts;
  std::ifstream file(kData / "token_ids.txt");
  for (std::string text, ids, hashes;
       std::getline(file, text) && std::getline(file, ids) && std::getline(file, hashes);)
    texts.push_back(json::parse(text).get<std::string>());
  EXPECT_GE(texts.size(), 2000u);
  const json& hashes = options_.at("strings");
  ASSERT_EQ(hashes.size(), (texts.size() + kGroup - 1) / kGroup);
  for (std::size_t first = 0; first < texts.size(); first += kGroup) {
    TokenHash hash;
    for (std::size_t i = first; i < std::min(first + kGroup, texts.size()); ++i) variant_.add(texts[i], hash);
    EXPECT_EQ(hash.hex(), hashes[first / kGroup]) << "strings from " << first << ": " << texts[first];
  }
}

TEST_P(EveryBpe, AgreesOnEveryScalar) {
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
