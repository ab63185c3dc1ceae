// SPDX-License-Identifier: Apache-2.0
#include "src/model/word_split.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/model/unicode.h"

namespace stof {
namespace {

enum class Kind : std::uint8_t { letter, number, space, other };

constexpr bool in(char32_t c, char32_t first, char32_t last) { return first <= c && c <= last; }

Kind kind_of(char32_t c) {
  if (c < 0x80) {
    if (in(c | 0x20, 'a', 'z')) return Kind::letter;
    if (in(c, '0', '9')) return Kind::number;
    return c == ' ' || in(c, '\t', '\r') ? Kind::space : Kind::other;
  }
  if (unicode::is_letter(c)) return Kind::letter;
  if (unicode::is_number(c)) return Kind::number;
  return unicode::is_white_space(c) ? Kind::space : Kind::other;
}

// The characters of one kind from `begin` on, at most `most`: where they end, and where the last of them begins.
struct Run {
  std::size_t last, end;
};
Run run_of(std::string_view text, std::size_t begin, Kind kind, std::size_t most = std::string_view::npos) {
  Run run{begin, begin};
  for (; most > 0 && run.end < text.size(); --most) {
    const auto [c, bytes] = unicode::decode(text.data() + run.end);
    if (kind_of(c) != kind) break;
    run = {run.end, run.end + bytes};
  }
  return run;
}

// \s+(?!\S)|\s+: of spaces before a word the last one is the word's, or stands alone.
std::size_t end_of_spaces(std::string_view text, Run spaces) {
  return spaces.end == text.size() || spaces.last == 0 ? spaces.end : spaces.last;
}

// 's 't 're 've 'm 'll 'd: their bytes, or 0.
std::size_t contraction(std::string_view text) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.starts_with(ending)) return ending.size();
  return 0;
}

// The same in either case; the long s is an s then.
std::size_t contraction_of_any_case(std::string_view text) {
  if (text.size() < 2 || text[0] != '\'') return 0;
  const auto lower = [&](std::size_t at) { return at < text.size() ? text[at] | 0x20 : 0; };
  switch (lower(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd': return 2;
    case 'r':
    case 'v': return lower(2) == 'e' ? 3 : 0;
    case 'l': return lower(2) == 'l' ? 3 : 0;
    default: return text.substr(1).starts_with("\xc5\xbf") ? 3 : 0;  // U+017F
  }
}

std::size_t first_word_of_gpt2(std::string_view text) {
  if (const std::size_t bytes = contraction(text)) return bytes;
  const std::size_t begin = text[0] == ' ' && text.size() > 1 ? 1 : 0;
  const Kind kind = kind_of(unicode::decode(text.data() + begin).scalar);
  if (kind != Kind::space) return run_of(text, begin, kind).end;
  return end_of_spaces(text, run_of(text, 0, Kind::space));
}

// The last alternatives of Llama 3's expression: what is neither a letter nor a number with what may end it, spaces.
std::size_t others_or_spaces(std::string_view text, std::string_view endings) {
  constexpr std::string_view kLineBreaks = "\r\n";
  const std::size_t begin = text[0] == ' ' ? 1 : 0;
  if (const Run others = run_of(text, begin, Kind::other); others.end > begin)
    return std::min(text.find_first_not_of(endings, others.end), text.size());
  const Run spaces = run_of(text, 0, Kind::space);
  const std::size_t line_break = text.substr(0, spaces.end).find_last_of(kLineBreaks);
  return line_break != text.npos ? line_break + 1 : end_of_spaces(text, spaces);
}

// Its alternatives in order; `digits` go together.
std::size_t first_word_of_llama3(std::string_view text, std::size_t digits) {
  if (const std::size_t bytes = contraction_of_any_case(text)) return bytes;
  const auto [first, bytes] = unicode::decode(text.data());
  const Kind kind = kind_of(first);
  if (kind == Kind::number) return run_of(text, 0, Kind::number, digits).end;
  // Any other character but a line break goes with the letters behind it.
  const std::size_t before = kind == Kind::letter || first == '\r' || first == '\n' ? 0 : bytes;
  if (const Run letters = run_of(text, before, Kind::letter); letters.end > before) return letters.end;
  return others_or_spaces(text, "\r\n");
}

template <class Member>
std::size_t end_of(std::string_view text, std::size_t at, const Member& is_member) {
  while (at < text.size()) {
    const auto [c, bytes] = unicode::decode(text.data() + at);
    if (!is_member(c)) break;
    at += bytes;
  }
  return at;
}

// Where [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+ ends that begins here; `begin` where it does not
// match. Capitals are given back until one may be small: that is then the last character.
std::size_t end_of_small(std::string_view text, std::size_t begin) {
  const std::size_t capitals = end_of(text, begin, unicode::may_be_capital);
  const std::size_t smalls = end_of(text, capitals, unicode::may_be_small);
  if (smalls > capitals) return smalls;
  for (std::size_t end = capitals; end > begin;) {
    const auto [c, bytes] = unicode::decode_last(text.substr(0, end));
    if (unicode::may_be_small(c)) return end;
    end -= bytes;
  }
  return begin;
}

// And [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*, asked where the other one has not matched.
std::size_t end_of_capitals(std::string_view text, std::size_t begin) {
  const std::size_t capitals = end_of(text, begin, unicode::may_be_capital);
  return capitals == begin ? begin : end_of(text, capitals, unicode::may_be_small);
}

std::size_t first_word_of_gpt4o(std::string_view text) {
  const auto [first, bytes] = unicode::decode(text.data());
  const Kind kind = kind_of(first);
  if (kind == Kind::number) return run_of(text, 0, Kind::number, 3).end;
  // Any other character but a line break goes with the letters behind it; a mark may also be the first of them.
  const bool leads = kind != Kind::letter && first != '\r' && first != '\n';
  for (const auto& end_of_letters : {end_of_small, end_of_capitals})
    for (const std::size_t begin : {leads ? bytes : 0, std::size_t{0}})
      if (const std::size_t end = end_of_letters(text, begin); end > begin)
        return end + contraction_of_any_case(text.substr(end));
  return others_or_spaces(text, "\r\n/");
}

}  // namespace

std::size_t first_word(std::string_view text, WordSplit split) {
  switch (split) {
    case WordSplit::gpt2: return first_word_of_gpt2(text);
    case WordSplit::llama3: return first_word_of_llama3(text, 3);
    case WordSplit::qwen2: return first_word_of_llama3(text, 1);
    case WordSplit::gpt4o: return first_word_of_gpt4o(text);
  }
  STOF_CHECK(false);
}

}  // namespace stof
