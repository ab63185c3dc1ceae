// SPDX-License-Identifier: Apache-2.0
#include "src/model/token_texts.h"

#include <algorithm>

#include "src/base/error.h"

namespace stof {

TokenTexts::TokenTexts(std::vector<Token> tokens) {
  std::stable_sort(tokens.begin(), tokens.end(), [](const Token& a, const Token& b) { return a.id < b.id; });
  std::size_t bytes = 0;
  for (const Token& token : tokens) bytes += token.text.size();
  STOF_CHECK(bytes < std::size_t{1} << 31);  // files are not as long
  bytes_.reserve(bytes);
  places_.reserve(tokens.size() + 1);
  const auto begin_next = [&](std::int32_t id) {
    places_.push_back({.id = id, .begin = static_cast<std::uint32_t>(bytes_.size()) & 0x7FFFFFFF, .special = 0});
  };
  for (const Token& token : tokens) {
    if (places_.empty() || places_.back().id != token.id) begin_next(token.id);
    Place& place = places_.back();
    bytes_.erase(place.begin);
    bytes_.append(token.text);
    if (token.special) place.special = 1;
  }
  begin_next(-1);
}

std::optional<TokenTexts::Token> TokenTexts::find(std::int32_t id) const {
  if (size() == 0) return {};
  const auto end = places_.end() - 1;
  auto place = end;
  // In nearly every vocabulary ids are places.
  if (id >= 0 && static_cast<std::size_t>(id) < size()) place = places_.begin() + id;
  if (place == end || place->id != id)
    place = std::lower_bound(places_.begin(), end, id, [](const Place& a, std::int32_t b) { return a.id < b; });
  if (place == end || place->id != id) return {};
  const std::size_t begin = place->begin;
  return Token{.text = std::string_view(bytes_).substr(begin, (place + 1)->begin - begin),
               .id = id,
               .special = place->special != 0};
}

}  // namespace stof
