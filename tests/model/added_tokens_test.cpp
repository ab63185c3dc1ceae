// SPDX-License-Identifier: Apache-2.0
#include "src/model/added_tokens.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace stof {
namespace {

// The parts of text, in order: "text" or <id>.
std::string split(const std::vector<AddedToken>& tokens, std::string_view text) {
  std::string result;
  AddedTokens(tokens).split(
      text, [&](std::string_view part) { result += fmt::format("\"{}\"", part); },
      [&](std::int32_t id) { result += fmt::format("<{}>", id); });
  return result;
}

TEST(AddedTokens, LeftmostThenLongest) {
  const std::vector<AddedToken> tokens = {
      {.content = "ab", .id = 1}, {.content = "abc", .id = 2}, {.content = "bcd", .id = 3}};
  EXPECT_EQ(split(tokens, ""), "");
  EXPECT_EQ(split(tokens, "xyz"), "\"xyz\"");
  EXPECT_EQ(split(tokens, "xabcdabx"), "\"x\"<2>\"d\"<1>\"x\"");
  EXPECT_EQ(split(tokens, "bbcd"), "\"b\"<3>");
}

TEST(AddedTokens, StripsWhiteSpaceOnce) {
  const std::vector<AddedToken> tokens = {{.content = "L", .id = 1, .lstrip = true},
                                          {.content = "R", .id = 2, .rstrip = true}};
  EXPECT_EQ(split(tokens, "a \t\xe3\x80\x80L b"), "\"a\"<1>\" b\"");
  EXPECT_EQ(split(tokens, "a R\xc2\xa0 b"), "\"a \"<2>\"b\"");
  EXPECT_EQ(split(tokens, "R  L  "), "<2><1>\"  \"");
  EXPECT_EQ(split(tokens, "  L"), "<1>");
}

TEST(AddedTokens, SingleWord) {
  const std::vector<AddedToken> tokens = {{.content = "w", .id = 1, .single_word = true}};
  EXPECT_EQ(split(tokens, "w,w"), "<1>\",\"<1>");
  EXPECT_EQ(split(tokens, "ww w_ \xc3\xa9w w"), "\"ww w_ \xc3\xa9w \"<1>");
}

}  // namespace
}  // namespace stof
