// SPDX-License-Identifier: Apache-2.0
// Text to token ids as in Llama 2 and Mistral 7B: pairs of characters are merged, within the whole text, for its spaces
// are characters too (src/model/marked_spaces.h). A character without a token becomes the tokens of its bytes.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "src/base/hash.h"
#include "src/model/byte_pairs.h"

namespace stof {

// The characters with which a token begins and ends.
struct Ends {
  char32_t first, last;
};

// Between which characters some merge joins two tokens. Between all others a text may be cut before anything is merged,
// as a token that is merged ends with the same characters as the tokens it was made of.
class Joints {
 public:
  void add(char32_t before, char32_t behind) { pairs_.insert(pair_of(before, behind)); }
  bool has(char32_t before, char32_t behind) const { return pairs_.contains(pair_of(before, behind)); }

 private:
  struct Hash {
    std::size_t operator()(std::uint64_t pair) const { return splitmix64(pair); }
  };
  static std::uint64_t pair_of(char32_t before, char32_t behind) { return std::uint64_t{before} << 32 | behind; }
  std::unordered_set<std::uint64_t, Hash> pairs_;
};

struct UnknownToken {
  std::int32_t id;
  Ends ends;
};

struct CharacterLevelOptions {
  static constexpr std::int32_t kMissing = -1;
  std::unordered_map<char32_t, std::int32_t> characters;  // their ids
  std::array<std::int32_t, 256> bytes{};                  // ids of <0x00> to <0xFF>, or kMissing
  std::optional<UnknownToken> unknown;  // for characters that lack a token and that of a byte; else these are dropped
  bool fuse_unknown = false;            // one for all that follow each other
  std::vector<Merge> merges;            // first come, first merged
  Joints joints;                        // of the merges
};

class CharacterLevel {
 public:
  explicit CharacterLevel(CharacterLevelOptions options);

  // `text` is well-formed UTF-8.
  void append_ids(std::string_view text, std::vector<std::int32_t>& ids) const;

 private:
  class Writer;
  bool has_bytes(std::string_view character) const;

  CharacterLevelOptions options_;  // without the merges
  BytePairs pairs_;
};

}  // namespace stof
