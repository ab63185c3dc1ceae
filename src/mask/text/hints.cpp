// SPDX-License-Identifier: Apache-2.0
#include "src/mask/text/hints.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "src/base/error.h"

namespace stof {
namespace {

std::string in_small_letters(std::string_view text) {
  std::string small(text);
  for (char& c : small)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return small;
}

// Letters put in, left out, replaced, or exchanged with the next one, at least, to make one of the other.
std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, above(b.size() + 1), row(b.size() + 1);  // of i - 2, i - 1 and i letters of a
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::exchange(above, row);
  }
  return above[b.size()];
}

// Of two or three letters every other word is near.
std::size_t most_edits(std::string_view name) { return name.size() < 4 ? 0 : name.size() < 6 ? 1 : 2; }

}  // namespace

std::string nearest_name(std::string_view written, std::span<const std::string_view> names) {
  constexpr std::size_t kLongest = 20;
  if (written.size() > kLongest) return {};
  const std::string small = in_small_letters(written);
  std::string_view nearest;
  std::size_t fewest = kLongest;
  for (const std::string_view name : names)
    if (const std::size_t edits = edits_between(small, name); edits <= most_edits(name) && edits < fewest) {
      nearest = name;
      fewest = edits;
    }
  return nearest.empty() ? "" : fmt::format(" (did you mean '{}'?)", nearest);
}

void refuse_other_operators(Cursor& cursor) {
  constexpr std::pair<std::string_view, char> kOthers[] = {{"'~'", '!'}, {"'not'", '!'}, {"'and'", '&'}, {"'or'", '|'}};
  if (std::string_view("~nNaAoO").find(cursor.peek()) == std::string_view::npos) return;
  const std::string next = cursor.got();
  for (const auto& [other, ours] : kOthers)
    if (in_small_letters(next) == other) cursor.fail_here(fmt::format("{} is written '{}'", next, ours));
}

}  // namespace stof
