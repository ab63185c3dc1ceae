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

// As tokenizers 0.23.3 has them, with tests/data/families/roberta and these tokens added.
TEST(AddedTokens, OfWhiteSpaceAreTakenByTheOneBefore) {
  const auto two_spaces = [](bool lstrip, bool rstrip) {
    return std::vector<AddedToken>{{.content = "  ", .id = 1, .lstrip = lstrip, .rstrip = rstrip}};
  };
  EXPECT_EQ(split(two_spaces(true, true), "bca    "), "\"bca\"<1>");
  EXPECT_EQ(split(two_spaces(false, true), "bca    "), "\"bca\"<1><1>");
  EXPECT_EQ(split(two_spaces(true, false), "bca    "), "\"bca\"<1><1>");
  std::vector<AddedToken> tokens = {{.content = "\t", .id = 1, .rstrip = true},
                                    {.content = " ", .id = 2, .lstrip = true}};
  EXPECT_EQ(split(tokens, "a\t x"), "\"a\"<1>\"x\"");
  tokens[1].rstrip = true;
  EXPECT_EQ(split(tokens, "a\t   x"), "\"a\"<1>\"x\"");
}

TEST(AddedTokens, SingleWord) {
  const std::vector<AddedToken> tokens = {{.content = "w", .id = 1, .single_word = true}};
  EXPECT_EQ(split(tokens, "w,w"), "<1>\",\"<1>");
  EXPECT_EQ(split(tokens, "ww w_ \xc3\xa9w w"), "\"ww w_ \xc3\xa9w \"<1>");
}

}  // namespace
}  // namespace stof
