// SPDX-License-Identifier: Apache-2.0
// Canonical composition (Unicode, section 3.11) with the decompositions and combining classes of unicode.h: utf8proc's
// own composition would order recent marks by classes that the Python package `tokenizers` does not know.
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "src/model/unicode.h"

namespace stof::unicode {
namespace {

struct Character {
  char32_t scalar;
  int combining_class;
};

std::vector<Character> decomposed(std::string_view text) {
  std::vector<Character> all;
  all.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto [c, bytes] = decode(text.data() + i);
    i += bytes;
    const Decomposition parts = c < 0x80 ? Decomposition{{c}, 1} : decompose(c);
    for (std::size_t p = 0; p < parts.count; ++p) {
      const char32_t part = parts.scalars[p];
      all.push_back({part, part < 0x80 ? 0 : combining_class(part)});
    }
  }
  return all;
}

// Marks between two starters by class, equal ones in order of appearance.
void put_in_order(std::vector<Character>& all) {
  const auto is_starter = [](const Character& c) { return c.combining_class == 0; };
  for (auto begin = all.begin(); begin != all.end();) {
    const auto end = std::find_if(begin, all.end(), is_starter);
    std::stable_sort(begin, end,
                     [](const Character& a, const Character& b) { return a.combining_class < b.combining_class; });
    begin = std::find_if_not(end, all.end(), is_starter);
  }
}

std::optional<char32_t> composite(char32_t first, char32_t second) {
  if (second < 0x80) return std::nullopt;
  std::array<utf8proc_int32_t, 2> pair{static_cast<utf8proc_int32_t>(first), static_cast<utf8proc_int32_t>(second)};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  if (utf8proc_normalize_utf32(pair.data(), 2, options) != 1) return std::nullopt;
  return static_cast<char32_t>(pair[0]);
}

}  // namespace

void append_composed(std::string& out, std::string_view text) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::all_of(text.begin(), text.end(), is_ascii)) {
    out += text;
    return;
  }
  std::vector<Character> all = decomposed(text), made;
  put_in_order(all);
  made.reserve(all.size());
  std::optional<std::size_t> starter;
  for (const Character& c : all) {
    // A mark behind one of its own class or above does not reach the starter.
    const bool reaches = starter && (*starter + 1 == made.size() || made.back().combining_class < c.combining_class);
    if (const auto both = reaches ? composite(made[*starter].scalar, c.scalar) : std::nullopt) {
      made[*starter].scalar = *both;
      continue;
    }
    if (c.combining_class == 0) starter = made.size();
    made.push_back(c);
  }
  for (const Character& c : made) append(out, c.scalar);
}

}  // namespace stof::unicode
