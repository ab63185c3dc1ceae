// SPDX-License-Identifier: Apache-2.0
// The text of each token of a vocabulary, as it stands in the files, by id; in one block of memory.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stof {

class TokenTexts {
 public:
  struct Token {
    std::string_view text;
    std::int32_t id;
    bool special = false;
  };
  TokenTexts() = default;
  // Copies the texts. Of tokens with one id the last counts; it is special if one of them is.
  explicit TokenTexts(std::span<const Token> tokens);

  std::optional<Token> find(std::int32_t id) const;
  bool has(std::string_view text) const;  // looks at all of them
  std::size_t size() const { return places_.empty() ? 0 : places_.size() - 1; }
  std::int32_t last_id() const { return size() == 0 ? -1 : places_[size() - 1].id; }

 private:
  struct Place {
    std::int32_t id;
    std::uint32_t begin : 31, special : 1;
  };
  std::string bytes_;
  std::vector<Place> places_;  // sorted by id, and one more with the end of the last text
};

}  // namespace stof
