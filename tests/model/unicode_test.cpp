// SPDX-License-Identifier: Apache-2.0
#include "src/model/unicode.h"

#include <gtest/gtest.h>

namespace stof::unicode {
namespace {

TEST(Utf8, EveryScalarRoundTrips) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (0xD800 <= c && c < 0xE000) continue;
    std::string text = "a";
    append(text, c);
    ASSERT_EQ(find_invalid(text), std::string::npos);
    const Decoded forward = decode(text.data() + 1), backward = decode_last(text);
    ASSERT_EQ(forward.scalar, c);
    ASSERT_EQ(backward.scalar, c);
    ASSERT_EQ(forward.bytes, text.size() - 1);
    ASSERT_EQ(backward.bytes, text.size() - 1);
  }
}

TEST(Utf8, FindsTheFirstInvalidByte) {
  const struct {
    std::string text;
    std::size_t offset;
  } cases[] = {
      {"\x80", 0},      // a continuation alone
      {"\xc0\x80", 0},  // overlong
      {"\xc1\xbf", 0},
      {"\xe0\x9f\xbf", 0},
      {"\xf0\x8f\xbf\xbf", 0},
      {"\xed\xa0\x80", 0},      // a surrogate
      {"\xf4\x90\x80\x80", 0},  // above U+10FFFF
      {"\xf5\x80\x80\x80", 0},
      {"\xfe", 0},
      {"abcdefgh\xff", 8},
      {"abcdefghi\xe4\xb8", 9},  // cut short
      {"\xe4\xb8\xad\xe4\xb8x", 3},
      {"\xf0\x9f\x98", 0},
      {"\xf0\x9f\x98\x80\xf0\x9f\x98\x41", 4},
      {"\xc3\xa9\xc3", 2},
      {"\xc3(", 0},
  };
  for (const auto& [text, offset] : cases) EXPECT_EQ(find_invalid(text), offset) << testing::PrintToString(text);
  EXPECT_EQ(find_invalid(""), std::string::npos);
  EXPECT_EQ(find_invalid("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\xef\xbf\xbf"), std::string::npos);
}

// Of Unicode 15, section 3.9, tables 3-8 to 3-11.
TEST(Utf8, RepairsMaximalSubparts) {
  const auto repaired = [](std::string_view bytes, std::size_t left) {
    std::string text;
    EXPECT_EQ(unicode::append_repaired(text, bytes), bytes.size() - left);
    for (std::size_t at; (at = text.find(unicode::kReplacement)) != text.npos;) text.replace(at, 3, "?");
    return text;
  };
  EXPECT_EQ(repaired("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", 0), "????????A");
  EXPECT_EQ(repaired("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", 0), "????????A");
  EXPECT_EQ(repaired("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", 0), "?????A??B");
  EXPECT_EQ(repaired("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", 0), "????A");
  EXPECT_EQ(repaired("abcdefgh\xC3\xA9\xC3", 1), "abcdefgh\xC3\xA9");
  EXPECT_EQ(repaired("\xE2\xE2\x96", 2), "?");
  EXPECT_EQ(repaired("\xF0\x90\x80", 3), "");
  EXPECT_EQ(repaired("\xF0\x80", 0), "??");
  EXPECT_EQ(repaired("", 0), "");
}

TEST(Unicode, Properties) {
  EXPECT_TRUE(is_white_space(0x3000));
  EXPECT_FALSE(is_white_space(0x200B));
  EXPECT_TRUE(is_dropped(0xFFFD));
  EXPECT_TRUE(is_dropped(0));
  EXPECT_FALSE(is_dropped('\t'));
  EXPECT_TRUE(is_punctuation('$'));      // a symbol, and ASCII
  EXPECT_FALSE(is_punctuation(0x20AC));  // the euro sign
  EXPECT_TRUE(is_nonspacing_mark(0x301));
  EXPECT_TRUE(is_word_character(0x200D));
  EXPECT_FALSE(is_word_character('-'));
  EXPECT_EQ(combining_class(0x327), 202);
  EXPECT_EQ(lower(0x130).first, U'i');
  EXPECT_EQ(lower(0x130).second, 0x307u);
}

TEST(Unicode, Decompositions) {
  const auto parts = [](char32_t c) {
    const Decomposition result = decompose(c);
    return std::u32string(result.scalars, result.count);
  };
  EXPECT_EQ(parts(U'a'), U"a");
  EXPECT_EQ(parts(0x1F82), U"\x3b1\x313\x300\x345");
  EXPECT_EQ(parts(0xAC01), U"\x1100\x1161\x11a8");
  EXPECT_EQ(parts(0x2F800), U"\x4e3d");
  EXPECT_EQ(parts(0xFB01), U"\xfb01");  // compatibility only
}

// Compared with the package `tokenizers` on every scalar value, by itself, behind a letter and among two marks.
TEST(Unicode, ComposesCanonically) {
  const auto composed = [](const std::string& text) {
    std::string out = "|";
    append_composed(out, text);
    return out;
  };
  EXPECT_EQ(composed("plain"), "|plain");
  EXPECT_EQ(composed("e\u0301"), "|\u00E9");
  EXPECT_EQ(composed("e\u0301\u0323"), "|\u1EB9\u0301");        // by class: the dot below first
  EXPECT_EQ(composed("e\u0302\u0301\u0301"), "|\u1EBF\u0301");  // one after the other, as far as it goes
  EXPECT_EQ(composed("a\u0315\u0300"), "|\u00E0\u0315");        // past one of a higher class
  EXPECT_EQ(composed("\u1100\u1161\u11A8x"), "|\uAC01x");       // Hangul
  EXPECT_EQ(composed("\u0958"), "|\u0915\u093C");               // excluded from composition
  EXPECT_EQ(composed("\u2126\U0002F800"), "|\u03A9\u4E3D");     // singletons
  EXPECT_EQ(composed("\uFB01\u0301"), "|\uFB01\u0301");         // compatibility only
  EXPECT_EQ(composed("\u0301e"), "|\u0301e");                   // a mark behind nothing
}

}  // namespace
}  // namespace stof::unicode
