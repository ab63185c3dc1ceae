// SPDX-License-Identifier: Apache-2.0
// Ids and normalised text equal those of the Python package `tokenizers`, on more than 2,000 strings and on every
// Unicode scalar value, with the checkpoint's options and five others (tools/make_token_reference.py).
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "src/model/normalizer.h"
#include "src/model/tokenizer.h"
#include "src/model/tokenizer_files.h"
#include "src/model/unicode.h"
#include "tests/model/checkpoint.h"
#include "tests/model/token_hash.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

using nlohmann::json;

const std::filesystem::path kData = std::filesystem::path(STOF_SOURCE_DIR) / "tests/data";

// The tokenizer of the checkpoint with a normalizer and added tokens of its own.
class Variant {
 public:
  explicit Variant(const json& options) : pattern_(options.at("pattern")) {
    json tree = json::parse(read_bytes(checkpoint() / "tokenizer.json"));
    for (const char* key : {"normalizer", "added_tokens"})
      if (!options.at(key).is_null()) tree[key] = options.at(key);
    write_bytes(folder_ / "tokenizer.json", tree.dump());
    tokenizer_.emplace(Tokenizer::load(folder_.path()));
    normalizer_.emplace(read_tokenizer_json(folder_ / "tokenizer.json").normalizer);
  }

  std::vector<std::int32_t> ids(std::string_view text) const { return tokenizer_->encode(text); }
  std::string normalized(std::string_view text) const {
    std::string result;
    normalizer_->append(text, result);
    return result;
  }
  std::string hash(std::string_view text) const {
    TokenHash hash;
    hash.add(ids(text));
    hash.add(normalized(text));
    return hash.hex();
  }
  // Over scalars 256 * block and the next 255; in normalised text the scalar itself counts as %.
  std::string block_hash(char32_t block) const {
    TokenHash hash;
    for (char32_t c = block * 256; c < (block + 1) * 256; ++c) {
      if (0xD800 <= c && c < 0xE000) continue;
      std::string scalar;
      unicode::append(scalar, c);
      const std::string text = replaced(pattern_, "%", scalar);
      hash.add(ids(text));
      hash.add(replaced(normalized(text), scalar, "%"));
    }
    return hash.hex();
  }

 private:
  static std::string replaced(std::string_view text, std::string_view what, std::string_view by) {
    std::string result;
    for (std::size_t at; (at = text.find(what)) != std::string_view::npos; text.remove_prefix(at + what.size()))
      result.append(text.substr(0, at)).append(by);
    return result.append(text);
  }

  std::string pattern_;
  TemporaryFolder folder_;
  std::optional<Tokenizer> tokenizer_;
  std::optional<Normalizer> normalizer_;
};

struct Reference {
  std::string text;
  std::string ids;
  std::vector<std::string> hashes;  // of each variant
};

std::vector<Reference> read_references() {
  std::ifstream file(kData / "token_ids.txt");
  std::vector<Reference> references;
  for (std::string text, ids, hashes;
       std::getline(file, text) && std::getline(file, ids) && std::getline(file, hashes);) {
    std::istringstream words(hashes);
    references.push_back({json::parse(text).get<std::string>(), ids, {std::istream_iterator<std::string>(words), {}}});
  }
  return references;
}

json variants() { return json::parse(read_bytes(kData / "token_scalars.json")).at("variants"); }

constexpr std::size_t kVariants = 6;

class EveryVariant : public testing::TestWithParam<std::size_t> {};

TEST(TokenizerReference, IdsOfEveryString) {
  const Variant variant(variants().at(0));
  const std::vector<Reference> references = read_references();
  EXPECT_GE(references.size(), 2000u);
  for (const Reference& reference : references)
    EXPECT_EQ(fmt::format("{}", fmt::join(variant.ids(reference.text), " ")), reference.ids) << json(reference.text);
}

TEST_P(EveryVariant, AgreesOnEveryString) {
  const Variant variant(variants().at(GetParam()));
  for (const Reference& reference : read_references()) {
    ASSERT_EQ(reference.hashes.size(), kVariants);
    EXPECT_EQ(variant.hash(reference.text), reference.hashes[GetParam()])
        << json(reference.text) << " normalised " << json(variant.normalized(reference.text)) << ": "
        << fmt::format("{}", fmt::join(variant.ids(reference.text), " "));
  }
}

TEST_P(EveryVariant, AgreesOnEveryScalar) {
  const json options = variants().at(GetParam());
  ASSERT_EQ(variants().size(), kVariants);
  const Variant variant(options);
  char32_t next = 0;
  for (const json& run : options.at("blocks")) {
    ASSERT_EQ(run.at(0), static_cast<std::uint32_t>(next));
    for (; next <= run.at(1).get<std::uint32_t>(); ++next)
      EXPECT_EQ(variant.block_hash(next), run.at(2)) << fmt::format(
          "U+{:04X} to U+{:04X}; `make_token_reference.py MODEL --block {} {}` prints what each should be", next * 256,
          next * 256 + 255, GetParam(), static_cast<std::uint32_t>(next));
  }
  EXPECT_EQ(static_cast<std::uint32_t>(next), 0x1100u);
}

INSTANTIATE_TEST_SUITE_P(TokenizerReference, EveryVariant, testing::Range<std::size_t>(0, kVariants));

}  // namespace
}  // namespace stof
