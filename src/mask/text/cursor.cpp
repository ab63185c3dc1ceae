// SPDX-License-Identifier: Apache-2.0
#include "src/mask/text/cursor.h"

#include <algorithm>
#include <charconv>

#include "src/base/control_bytes.h"
#include "src/base/error.h"
#include "src/mask/expression.h"

namespace stof {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }
// Characters beyond ASCII are taken as letters, so that a message shows the word whole; no name has one.
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || !is_ascii(c); }
bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }  // UTF-8

// At most this much of the line is shown on either side of the place.
constexpr std::size_t kShown = 60;

// [begin, end) of the line around `place`, cut to what is shown and to whole characters.
struct Excerpt {
  std::size_t begin, end;
};

Excerpt excerpt(std::string_view text, std::size_t place) {
  const std::size_t before = text.substr(0, place).rfind('\n');
  std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  std::size_t end = std::min(text.find('\n', place), text.size());
  if (place - begin > kShown) begin = place - kShown;
  if (end - place > kShown) end = place + kShown;
  while (begin < place && continues_character(text[begin])) ++begin;
  while (end > place && end < text.size() && continues_character(text[end])) --end;
  return {begin, end};
}

// Tabs would move the mark, and what a terminal obeys is not shown to it: each such character is a space.
std::string without_controls(std::string_view text) {
  std::string shown;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t bytes = control_bytes(text, i);
    shown += bytes > 0 ? ' ' : text[i];
    i += std::max<std::size_t>(bytes, 1);
  }
  return shown;
}

}  // namespace

Cursor::Cursor(std::string_view text) : text_(text) {
  if (text.size() > kMaxText)
    fail(ErrorKind::invalid_argument, "mask: a text of {} bytes; accepted: at most {}", text.size(), kMaxText);
}

void Cursor::count_term() {
  if (++terms_ > kMaxTerms) fail_here(fmt::format("more than {} terms", kMaxTerms));
}

std::size_t Cursor::place() {
  while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  return at_;
}

bool Cursor::eat(std::string_view token) {
  if (text_.substr(place(), token.size()) != token) return false;
  at_ += token.size();
  return true;
}

void Cursor::expect(char token, std::string_view where) {
  if (!eat(std::string_view(&token, 1))) fail_here(fmt::format("expected '{}' {}; got {}", token, where, got()));
}

std::string_view Cursor::word() {
  const std::size_t begin = place();
  if (begin == text_.size() || !is_letter(text_[begin])) return {};
  while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
  return text_.substr(begin, at_ - begin);
}

std::string_view Cursor::digits() {
  const std::size_t begin = place();
  while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  return text_.substr(begin, at_ - begin);
}

std::optional<std::int64_t> Cursor::integer(std::optional<std::size_t> sign) {
  const std::size_t begin = place();
  const std::string number = fmt::format("{}{}", sign ? "-" : "", digits());  // spaces may stand behind the minus
  if (at_ == begin) return std::nullopt;
  std::int64_t value = 0;
  if (std::from_chars(number.data(), number.data() + number.size(), value).ec != std::errc())
    fail_at(sign.value_or(begin), fmt::format("{} does not fit 64 bits; accepted: -2^63 to 2^63 - 1", number));
  return value;
}

std::string_view Cursor::until(std::string_view stops) {
  const std::size_t begin = place();
  at_ = std::min(text_.find_first_of(stops, begin), text_.size());
  std::size_t end = at_;
  while (end > begin && is_space(text_[end - 1])) --end;
  return text_.substr(begin, end - begin);
}

std::string Cursor::quoted() {
  const std::size_t begin = place();
  const char quote = text_[at_++];
  std::string value;
  for (; at_ < text_.size() && text_[at_] != quote; ++at_) {
    if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
    value += text_[at_];
  }
  if (at_ == text_.size()) fail_at(begin, "this quote is not closed");
  ++at_;
  return value;
}

std::string Cursor::got() {
  if (at_end()) return "the end";
  Cursor ahead = *this;
  std::string_view token = ahead.word();
  if (token.empty()) token = ahead.digits();
  if (token.empty()) token = text_.substr(at_, 1);
  return fmt::format("'{}'", token);
}

void Cursor::fail_at(std::size_t place, std::string_view message, ErrorKind kind) const {
  const auto [begin, end] = excerpt(text_, place);
  const std::string_view dots_before = begin > 0 && text_[begin - 1] != '\n' ? "..." : "";
  const std::string_view dots_after = end < text_.size() && text_[end] != '\n' ? "..." : "";
  const std::string line =
      fmt::format("{}{}{}", dots_before, without_controls(text_.substr(begin, end - begin)), dots_after);
  const std::string_view passed = text_.substr(begin, place - begin);
  const auto column = static_cast<std::size_t>(
      std::count_if(passed.begin(), passed.end(), [](char c) { return !continues_character(c); }));
  fail(kind, "mask: {}\n  {}\n  {:>{}}", without_controls(message), line, '^', dots_before.size() + column + 1);
}

Cursor::Nested::Nested(Cursor& cursor, int most, int base) : cursor_(cursor) {
  if (++cursor.depth_ - base <= most) return;
  --cursor.depth_;
  cursor.fail_here(fmt::format("nested deeper than {} levels", most));
}

}  // namespace stof
