// SPDX-License-Identifier: Apache-2.0
#include "src/model/token_texts.h"

#include <algorithm>
#include <numeric>

#include "src/base/error.h"

namespace stof {
namespace {

// Indices of tokens, by id, then as they come. The ids of nearly every vocabulary leave no gaps, and need no sorting.
std::vector<std::size_t> order_of(std::span<const TokenTexts::Token> tokens) {
  std::vector<std::size_t> begins, order(tokens.size());
  const auto last = std::ranges::max_element(tokens, {}, &TokenTexts::Token::id);
  if (last == tokens.end() || static_cast<std::size_t>(last->id) > 2 * tokens.size()) {
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return tokens[i].id; });
    return order;
  }
  begins.resize(static_cast<std::size_t>(last->id) + 2);
  for (const TokenTexts::Token& token : tokens) ++begins[static_cast<std::size_t>(token.id) + 1];
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  for (std::size_t i = 0; i < tokens.size(); ++i) order[begins[static_cast<std::size_t>(tokens[i].id)]++] = i;
  return order;
}

}  // namespace

TokenTexts::TokenTexts(std::span<const Token> tokens) {
  std::size_t bytes = 0;
  for (const Token& token : tokens) bytes += token.text.size();
  STOF_CHECK(bytes < std::size_t{1} << 31);  // files are not as long
  bytes_.reserve(bytes);
  places_.reserve(tokens.size() + 1);
  const auto begin_next = [&](std::int32_t id) {
    places_.push_back({.id = id, .begin = static_cast<std::uint32_t>(bytes_.size()) & 0x7FFFFFFF, .special = 0});
  };
  for (const std::size_t i : order_of(tokens)) {
    const Token& token = tokens[i];
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

bool TokenTexts::has(std::string_view text) const {
  const std::string_view all = bytes_;
  for (std::size_t i = 0; i < size(); ++i)
    if (all.substr(places_[i].begin, places_[i + 1].begin - places_[i].begin) == text) return true;
  return false;
}

}  // namespace stof
