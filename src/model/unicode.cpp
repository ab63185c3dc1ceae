// SPDX-License-Identifier: Apache-2.0
#include "src/model/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "src/base/error.h"
#include "src/model/unicode_overrides.h"

namespace stof::unicode {
namespace {

constexpr bool in(char32_t c, char32_t first, char32_t last) { return first <= c && c <= last; }

// Most pages of 256 characters have no override: one load tells, and only the others are searched.
template <std::size_t kCount>
class Overrides {
 public:
  explicit constexpr Overrides(const std::array<Override, kCount>& ranges) : ranges_(ranges) {
    for (const Override& range : ranges)
      for (std::size_t page = range.first >> 8; page <= range.last >> 8; ++page) pages_[page] = true;
  }

  std::optional<int> find(char32_t c) const {
    if (!pages_[c >> 8]) return {};
    const auto after = [](char32_t scalar, const Override& range) { return scalar < range.first; };
    const auto next = std::upper_bound(ranges_.begin(), ranges_.end(), c, after);
    if (next == ranges_.begin() || c > std::prev(next)->last) return {};
    return std::prev(next)->value;
  }

 private:
  const std::array<Override, kCount>& ranges_;
  std::array<bool, 0x1100> pages_{};
};

constexpr Overrides kDroppedOverrides(kDropped);
constexpr Overrides kPunctuationOverrides(kPunctuation);
constexpr Overrides kMarkOverrides(kMark);
constexpr Overrides kWordCharacterOverrides(kWordCharacter);
constexpr Overrides kLetterOverrides(kLetter);
constexpr Overrides kNumberOverrides(kNumber);
constexpr Overrides kCapitalOverrides(kCapital);
constexpr Overrides kSmallOverrides(kSmall);
constexpr Overrides kCombiningClassOverrides(kCombiningClass);
constexpr Overrides kNotDecomposedOverrides(kNotDecomposed);
constexpr Overrides kLowerOverrides(kLower);
constexpr Overrides kExtendsOverrides(kExtends);
constexpr Overrides kPrependsOverrides(kPrepends);

const utf8proc_property_t& properties(char32_t c) { return *utf8proc_get_property(static_cast<utf8proc_int32_t>(c)); }

bool has_category(char32_t c, std::initializer_list<utf8proc_category_t> categories) {
  const auto category = static_cast<utf8proc_category_t>(properties(c).category);
  return std::find(categories.begin(), categories.end(), category) != categories.end();
}

// Bytes of the sequence that `lead` begins and the range of its second byte, or 0: lead cannot begin one.
struct Lead {
  std::size_t bytes;
  unsigned char second_least, second_most;
};
constexpr Lead lead_of(unsigned char lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (in(lead, 0xC2, 0xDF)) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};  // no surrogates
  if (in(lead, 0xE1, 0xEF)) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (in(lead, 0xF1, 0xF3)) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// How many of the first bytes begin a character; at least one counts.
std::size_t bytes_of_beginning(const Lead& lead, std::string_view bytes) {
  const std::size_t most = std::min(lead.bytes, bytes.size());
  if (most < 2 || !in(static_cast<unsigned char>(bytes[1]), lead.second_least, lead.second_most)) return 1;
  std::size_t count = 2;
  while (count < most && is_continuation(bytes[count])) ++count;
  return count;
}

}  // namespace

std::size_t find_invalid(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  for (std::size_t i = 0; i < text.size();) {
    std::uint64_t eight = kHighBits;
    if (i + 8 <= text.size()) std::memcpy(&eight, text.data() + i, 8);
    if ((eight & kHighBits) == 0) {
      i += 8;
      continue;
    }
    const Lead lead = lead_of(static_cast<unsigned char>(text[i]));
    if (lead.bytes == 0 || lead.bytes > text.size() - i) return i;
    if (lead.bytes > 1 && !in(static_cast<unsigned char>(text[i + 1]), lead.second_least, lead.second_most)) return i;
    for (std::size_t j = 2; j < lead.bytes; ++j)
      if (!is_continuation(text[i + j])) return i;
    i += lead.bytes;
  }
  return std::string_view::npos;
}

Decoded decode(const char* at) {
  const auto byte = [at](int i) { return static_cast<char32_t>(static_cast<unsigned char>(at[i])); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
}

Decoded decode_last(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while (is_continuation(text[begin])) --begin;
  return decode(text.data() + begin);
}

void append(std::string& text, char32_t c) {
  const auto tail = [c](int shift) { return static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) text += static_cast<char>(c);
  else if (c < 0x800) text.append({static_cast<char>(0xC0 | c >> 6), tail(0)});
  else if (c < 0x10000) text.append({static_cast<char>(0xE0 | c >> 12), tail(6), tail(0)});
  else text.append({static_cast<char>(0xF0 | c >> 18), tail(12), tail(6), tail(0)});
}

std::size_t append_repaired(std::string& text, std::string_view bytes) {
  const std::size_t all = bytes.size();
  while (!bytes.empty()) {
    const std::size_t valid = std::min(find_invalid(bytes), bytes.size());
    text += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    const Lead lead = lead_of(static_cast<unsigned char>(bytes[0]));
    const std::size_t begun = bytes_of_beginning(lead, bytes);
    if (begun == bytes.size() && begun < lead.bytes) break;
    text += kReplacement;
    bytes.remove_prefix(begun);
  }
  return all - bytes.size();
}

namespace {

// A character that utf8proc knows to join as this one does.
utf8proc_int32_t joins_alike(char32_t c) {
  constexpr utf8proc_int32_t kLetter = U'a', kExtending = 0x301, kPrepending = 0x600;
  if (const auto known = kExtendsOverrides.find(c)) return *known != 0 ? kExtending : kLetter;
  if (const auto known = kPrependsOverrides.find(c)) return *known != 0 ? kPrepending : kLetter;
  return static_cast<utf8proc_int32_t>(c);
}

}  // namespace

std::size_t grapheme_bytes(std::string_view text) {
  auto [first, end] = decode(text.data());
  utf8proc_int32_t before = joins_alike(first), state = 0;
  while (end < text.size()) {
    const auto [scalar, bytes] = decode(text.data() + end);
    const utf8proc_int32_t next = joins_alike(scalar);
    if (utf8proc_grapheme_break_stateful(before, next, &state)) break;
    before = next;
    end += bytes;
  }
  return end;
}

bool is_white_space(char32_t c) {
  return in(c, 0x09, 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || in(c, 0x2000, 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_dropped(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  if (const auto known = kDroppedOverrides.find(c)) return *known != 0;
  return has_category(c, {UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CF, UTF8PROC_CATEGORY_CO});
}

bool is_chinese(char32_t c) {
  return in(c, 0x4E00, 0x9FFF) || in(c, 0x3400, 0x4DBF) || in(c, 0x20000, 0x2A6DF) || in(c, 0x2A700, 0x2B81F) ||
         in(c, 0x2B920, 0x2CEAF) || in(c, 0xF900, 0xFAFF) || in(c, 0x2F800, 0x2FA1F);
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) return in(c, '!', '/') || in(c, ':', '@') || in(c, '[', '`') || in(c, '{', '~');
  if (const auto known = kPunctuationOverrides.find(c)) return *known != 0;
  return has_category(c, {UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PD, UTF8PROC_CATEGORY_PS, UTF8PROC_CATEGORY_PE,
                          UTF8PROC_CATEGORY_PI, UTF8PROC_CATEGORY_PF, UTF8PROC_CATEGORY_PO});
}

bool is_nonspacing_mark(char32_t c) {
  if (const auto known = kMarkOverrides.find(c)) return *known != 0;
  return has_category(c, {UTF8PROC_CATEGORY_MN});
}

bool is_word_character(char32_t c) {
  if (const auto known = kWordCharacterOverrides.find(c)) return *known != 0;
  return has_category(c, {UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LL, UTF8PROC_CATEGORY_LT, UTF8PROC_CATEGORY_LM,
                          UTF8PROC_CATEGORY_LO, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_MC, UTF8PROC_CATEGORY_ME,
                          UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NL, UTF8PROC_CATEGORY_PC});
}

bool is_letter(char32_t c) {
  if (const auto known = kLetterOverrides.find(c)) return *known != 0;
  return has_category(c, {UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LL, UTF8PROC_CATEGORY_LT, UTF8PROC_CATEGORY_LM,
                          UTF8PROC_CATEGORY_LO});
}

bool is_number(char32_t c) {
  if (const auto known = kNumberOverrides.find(c)) return *known != 0;
  return has_category(c, {UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NL, UTF8PROC_CATEGORY_NO});
}

namespace {

bool has_no_case(char32_t c) {
  return has_category(c, {UTF8PROC_CATEGORY_LM, UTF8PROC_CATEGORY_LO, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_MC,
                          UTF8PROC_CATEGORY_ME});
}

}  // namespace

bool may_be_capital(char32_t c) {
  if (const auto known = kCapitalOverrides.find(c)) return *known != 0;
  return has_no_case(c) || has_category(c, {UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LT});
}

bool may_be_small(char32_t c) {
  if (const auto known = kSmallOverrides.find(c)) return *known != 0;
  return has_no_case(c) || has_category(c, {UTF8PROC_CATEGORY_LL});
}

int combining_class(char32_t c) {
  if (const auto known = kCombiningClassOverrides.find(c)) return *known;
  return properties(c).combining_class;
}

Lower lower(char32_t c) {
  if (c == 0x130) return {U'i', 0x307};
  if (const auto distance = kLowerOverrides.find(c))
    return {static_cast<char32_t>(static_cast<std::int64_t>(c) + *distance), 0};
  return {static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), 0};
}

Decomposition decompose(char32_t c) {
  const bool hangul = in(c, 0xAC00, 0xD7A3);  // decomposed by arithmetic, not by a table
  if ((properties(c).decomp_seqindex == UINT16_MAX && !hangul) || kNotDecomposedOverrides.find(c)) return {{c}, 1};
  std::array<utf8proc_int32_t, 4> parts{};
  int boundary = 0;  // grapheme state, which decomposition does not use
  const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(), parts.size(),
                                                         UTF8PROC_DECOMPOSE, &boundary);
  STOF_CHECK(count >= 1 && count <= 4);
  Decomposition result{{}, static_cast<std::size_t>(count)};
  std::transform(parts.begin(), parts.end(), result.scalars,
                 [](utf8proc_int32_t part) { return static_cast<char32_t>(part); });
  return result;
}

}  // namespace stof::unicode
