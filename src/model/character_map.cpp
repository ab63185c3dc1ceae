// SPDX-License-Identifier: Apache-2.0
#include "src/model/character_map.h"

#include <cstring>

#include "src/base/error.h"
#include "src/model/unicode.h"

namespace stof {
namespace {

// A unit of the double array: of its children, or of the text that a string is replaced by.
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFFFFFF; }
std::uint32_t label_of(std::uint32_t unit) { return unit & 0x800000FF; }
std::uint32_t offset_of(std::uint32_t unit) { return unit >> 10 << ((unit & 1U << 9) >> 6); }

}  // namespace

CharacterMap::CharacterMap(std::string_view compiled, std::string_view where) {
  std::uint32_t bytes = 0;
  if (compiled.size() >= sizeof bytes) std::memcpy(&bytes, compiled.data(), sizeof bytes);
  if (bytes < sizeof(std::uint32_t) || bytes % sizeof(std::uint32_t) != 0 || bytes > compiled.size() - sizeof bytes)
    fail(ErrorKind::bad_file,
         "{}: a map of {} bytes, of which {} are its array; accepted: a multiple of 4, from 4 on, that fits", where,
         compiled.size(), bytes);
  compiled.remove_prefix(sizeof bytes);
  units_.resize(bytes / sizeof(std::uint32_t));
  std::memcpy(units_.data(), compiled.data(), bytes);
  texts_ = compiled.substr(bytes);
  if (!texts_.ends_with('\0')) texts_ += '\0';
  if (unicode::find_invalid(texts_) != std::string_view::npos)
    fail(ErrorKind::bad_file, "{}: its texts are not UTF-8", where);
}

// Of the shortest beginning that has one.
std::optional<std::string_view> CharacterMap::replacement(std::string_view characters) const {
  std::size_t at = offset_of(units_[0]);
  for (const char c : characters) {
    const auto byte = static_cast<unsigned char>(c);
    at ^= byte;
    if (byte == 0 || at >= units_.size() || label_of(units_[at]) != byte) return {};
    const std::uint32_t unit = units_[at];
    at ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    if (at >= units_.size()) return {};
    const std::size_t begin = value_of(units_[at]);
    if (begin >= texts_.size() || (texts_[begin] & 0xC0) == 0x80) return {};  // of a damaged map
    return std::string_view(texts_).substr(begin, texts_.find('\0', begin) - begin);
  }
  return {};
}

void CharacterMap::append(std::string_view text, std::string& out) const {
  constexpr std::size_t kLongest = 5;
  while (!text.empty()) {
    std::string_view grapheme = text.substr(0, unicode::grapheme_bytes(text));
    text.remove_prefix(grapheme.size());
    if (grapheme.size() <= kLongest)
      if (const auto found = replacement(grapheme)) {
        out += *found;
        continue;
      }
    while (!grapheme.empty()) {
      const std::string_view character = grapheme.substr(0, unicode::decode(grapheme.data()).bytes);
      out += replacement(character).value_or(character);
      grapheme.remove_prefix(character.size());
    }
  }
}

}  // namespace stof
