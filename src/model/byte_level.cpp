// SPDX-License-Identifier: Apache-2.0
#include "src/model/byte_level.h"

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

// The characters of one kind from `begin` on: where they end, and where the last of them begins.
struct Run {
  std::size_t last, end;
};
Run run_of(std::string_view text, std::size_t begin, Kind kind) {
  Run run{begin, begin};
  while (run.end < text.size()) {
    const auto [c, bytes] = unicode::decode(text.data() + run.end);
    if (kind_of(c) != kind) break;
    run = {run.end, run.end + bytes};
  }
  return run;
}

// 's 't 're 've 'm 'll 'd: their bytes, or 0.
std::size_t contraction(std::string_view text) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.starts_with(ending)) return ending.size();
  return 0;
}

// Printable characters of Latin-1: not a control, a space or the soft hyphen.
constexpr bool stands_for_itself(char32_t c) { return in(c, 0x21, 0x7E) || in(c, 0xA1, 0xAC) || in(c, 0xAE, 0xFF); }

// The character of each byte.
constexpr std::array<char32_t, 256> characters() {
  std::array<char32_t, 256> result{};
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) result[byte] = stands_for_itself(byte) ? byte : next++;
  return result;
}
constexpr std::array<char32_t, 256> kCharacters = characters();

}  // namespace

std::size_t first_word(std::string_view text) {
  if (const std::size_t bytes = contraction(text)) return bytes;
  const std::size_t begin = text[0] == ' ' && text.size() > 1 ? 1 : 0;
  const Kind kind = kind_of(unicode::decode(text.data() + begin).scalar);
  if (kind != Kind::space) return run_of(text, begin, kind).end;
  // Of spaces before a word the last one is the word's, or stands alone.
  const Run spaces = run_of(text, 0, Kind::space);
  return spaces.end == text.size() || spaces.last == 0 ? spaces.end : spaces.last;
}

void ByteLevel::append_ids(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (text.empty()) return;
  std::string prefixed;
  if (add_prefix_space_ && text[0] != ' ') {
    prefixed.append(" ").append(text);
    text = prefixed;
  }
  BytePairs::Work work;
  while (!text.empty()) {
    const std::size_t bytes = first_word(text);
    pairs_.append_ids(text.substr(0, bytes), work, ids);
    text.remove_prefix(bytes);
  }
}

std::string ByteLevel::token_of(unsigned char byte) {
  std::string token;
  unicode::append(token, kCharacters[byte]);
  return token;
}

}  // namespace stof
