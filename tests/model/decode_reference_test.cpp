// SPDX-License-Identifier: Apache-2.0
// Texts of ids equal those of the Python package `tokenizers`, and come the same id by id
// (tools/make_decode_reference.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "src/base/hash.h"
#include "src/model/token_stream.h"
#include "src/model/unicode.h"
#include "tests/model/token_hash.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

const std::filesystem::path kData = std::filesystem::path(STOF_SOURCE_DIR) / "tests/data";
constexpr std::size_t kVariants = 18, kGroup = 64;
constexpr std::array kBoth = {SpecialTokens::skipped, SpecialTokens::kept};

class Random {
 public:
  std::int32_t below(std::uint64_t bound) { return static_cast<std::int32_t>(splitmix64(++count_) % bound); }

 private:
  std::uint64_t count_ = 0;
};

// The first 260 ids are special tokens and bytes, the last 12 added ones; that of `tokens` ids.
Ids mutated(Random& random, const Ids& ids, std::int32_t tokens) {
  Ids result;
  for (const std::int32_t id : ids) {
    const std::int32_t what = random.below(8);
    if (what == 0) continue;
    if (what == 1) result.push_back(random.below(260));
    if (what == 2) result.push_back(tokens - 1 - random.below(12));
    result.push_back(what == 3 ? random.below(static_cast<std::uint64_t>(tokens)) : id);
  }
  return result;
}

class EveryDecoder : public testing::TestWithParam<std::size_t> {
 protected:
  EveryDecoder() {
    const json tree = json::parse(read_bytes(kData / options_.at("file").get<std::string>()));
    write_bytes(folder_ / "tokenizer.json", tree.patch(options_.at("changes")).dump());
    tokenizer_.emplace(Tokenizer::load(folder_.path()));
    std::ifstream file(kData / "token_ids.txt");
    for (std::string text, ids, hashes;
         std::getline(file, text) && std::getline(file, ids) && std::getline(file, hashes);)
      texts_.push_back(json::parse(text).get<std::string>());
  }
  // Calls see(plain, changed) with the ids of each string from `first` on, as many as are in a group.
  template <class See>
  void each_of_group(std::size_t first, See&& see) {
    for (std::size_t i = first; i < std::min(first + kGroup, texts_.size()); ++i) {
      const Ids ids = tokenizer_->encode(texts_[i]);
      see(ids, mutated(random_, ids, tokenizer_->decoder().texts->last_id() + 1));
    }
  }
  json tree_ = json::parse(read_bytes(kData / "decode.json"));
  json options_ = tree_.at("variants").at(GetParam());
  TemporaryFolder folder_;
  std::optional<Tokenizer> tokenizer_;
  std::vector<std::string> texts_;
  Random random_;
};
INSTANTIATE_TEST_SUITE_P(DecodeReference, EveryDecoder, testing::Range<std::size_t>(0, kVariants));

TEST_P(EveryDecoder, AgreesOnEverySequence) {
  ASSERT_EQ(tree_.at("variants").size(), kVariants);
  EXPECT_GE(texts_.size(), 2000u);
  const json& hashes = options_.at("hashes");
  ASSERT_EQ(hashes.size(), (texts_.size() + kGroup - 1) / kGroup);
  for (std::size_t first = 0; first < texts_.size(); first += kGroup) {
    TokenHash plain, changed;
    each_of_group(first, [&](const Ids& of_text, const Ids& of_chance) {
      for (const SpecialTokens special : kBoth) {
        plain.add(tokenizer_->decode(of_text, {.special = special}));
        changed.add(tokenizer_->decode(of_chance, {.special = special}));
      }
    });
    EXPECT_EQ(json::array({plain.hex(), changed.hex()}), hashes[first / kGroup]) << "strings from " << first;
  }
}

// Cut behind each id, and whole characters all the way.
TEST_P(EveryDecoder, StreamsWhatItDecodes) {
  constexpr std::size_t kLongest = 100;
  const auto expect_same = [&](Ids ids, SpecialTokens special) {
    ids.resize(std::min(ids.size(), kLongest));
    TokenStream stream(*tokenizer_, {.special = special});
    std::string shown;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::string more = stream.add(ids[i]);
      ASSERT_EQ(unicode::find_invalid(more), std::string::npos);
      shown += more;
      ASSERT_EQ(shown + TokenStream(stream).finish(),
                tokenizer_->decode(std::span(ids).first(i + 1), {.special = special}));
    }
    stream.finish();
    EXPECT_TRUE(ids.empty() || stream.add(ids[0]) == TokenStream(*tokenizer_, {.special = special}).add(ids[0]));
  };
  for (std::size_t first = 0; first < texts_.size(); first += 4 * kGroup)
    each_of_group(first, [&](const Ids& of_text, const Ids& of_chance) {
      for (const SpecialTokens special : kBoth) {
        expect_same(of_text, special);
        expect_same(of_chance, special);
      }
    });
}

}  // namespace
}  // namespace stof
