// SPDX-License-Identifier: Apache-2.0
#include "src/model/word_split.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace stof {
namespace {

using Words = std::vector<std::string>;

Words words(std::string_view text, WordSplit split) {
  Words result;
  for (; !text.empty(); text.remove_prefix(result.back().size()))
    result.emplace_back(text.substr(0, first_word(text, split)));
  return result;
}
Words gpt2(std::string_view text) { return words(text, WordSplit::gpt2); }
Words llama3(std::string_view text) { return words(text, WordSplit::llama3); }
Words gpt4o(std::string_view text) { return words(text, WordSplit::gpt4o); }
Words qwen2(std::string_view text) { return words(text, WordSplit::qwen2); }

TEST(WordSplit, Gpt2) {
  EXPECT_EQ(gpt2("Hello world"), (Words{"Hello", " world"}));
  EXPECT_EQ(gpt2("I'll don't 'twas y'all'd"), (Words{"I", "'ll", " don", "'t", " '", "twas", " y", "'", "all", "'d"}));
  EXPECT_EQ(gpt2("'re've'm's'S"), (Words{"'re", "'ve", "'m", "'s", "'", "S"}));
  EXPECT_EQ(gpt2("a1b22 3.5"), (Words{"a", "1", "b", "22", " 3", ".", "5"}));
  EXPECT_EQ(gpt2("a  b   c"), (Words{"a", " ", " b", "  ", " c"}));
  EXPECT_EQ(gpt2("a\n\nb \n c  "), (Words{"a", "\n", "\n", "b", " \n", " c", "  "}));
  EXPECT_EQ(gpt2("\xc3\xa9t\xc3\xa9 \xc2\xbd\xe2\x82\xac!\xe3\x80\x80x"),
            (Words{"\xc3\xa9t\xc3\xa9", " \xc2\xbd", "\xe2\x82\xac!", "\xe3\x80\x80", "x"}));
  EXPECT_EQ(gpt2(" "), (Words{" "}));
  EXPECT_EQ(gpt2(" '"), (Words{" '"}));
}

// All of these as tokenizers 0.23.3 has them.
TEST(WordSplit, Llama3TakesOneCharacterBeforeLetters) {
  EXPECT_EQ(llama3("Hello world"), (Words{"Hello", " world"}));
  EXPECT_EQ(llama3("(a) -b\t\tc"), (Words{"(a", ")", " -", "b", "\t", "\tc"}));
  EXPECT_EQ(llama3("!!a 1a"), (Words{"!!", "a", " ", "1", "a"}));
  EXPECT_EQ(llama3("\xe3\x80\x80x\ny"), (Words{"\xe3\x80\x80x", "\n", "y"}));
}

TEST(WordSplit, Llama3TakesContractionsInEitherCase) {
  EXPECT_EQ(llama3("I'LL y'all'D"), (Words{"I", "'LL", " y", "'all", "'D"}));
  EXPECT_EQ(llama3("'rEx'Ve'M'S't"), (Words{"'rE", "x", "'Ve", "'M", "'S", "'t"}));
  EXPECT_EQ(llama3("'\xc5\xbfs '\xc3\x9f"), (Words{"'\xc5\xbf", "s", " '", "\xc3\x9f"}));
  EXPECT_EQ(llama3("'r 'l"), (Words{"'r", " '", "l"}));
  EXPECT_EQ(llama3("'"), (Words{"'"}));
}

TEST(WordSplit, DigitsGoTogetherByThreeOrAlone) {
  EXPECT_EQ(llama3("12345 6"), (Words{"123", "45", " ", "6"}));
  EXPECT_EQ(qwen2("123 6"), (Words{"1", "2", "3", " ", "6"}));
  EXPECT_EQ(llama3("\xc2\xbd\xc2\xbd\xc2\xbd\xc2\xbd"), (Words{"\xc2\xbd\xc2\xbd\xc2\xbd", "\xc2\xbd"}));
}

TEST(WordSplit, LineBreaksEndWhatIsBeforeThem) {
  EXPECT_EQ(llama3("a\r\n b"), (Words{"a", "\r\n", " b"}));
  EXPECT_EQ(llama3("  \n\n  x"), (Words{"  \n\n", " ", " x"}));
  EXPECT_EQ(llama3("!!\r\n\r\nx .\n"), (Words{"!!\r\n\r\n", "x", " .\n"}));
  EXPECT_EQ(llama3(" \n !"), (Words{" \n", " !"}));
  EXPECT_EQ(llama3("a \n \t"), (Words{"a", " \n", " \t"}));
  EXPECT_EQ(llama3("a   1"), (Words{"a", "  ", " ", "1"}));
  EXPECT_EQ(llama3("\ra\nb"), (Words{"\r", "a", "\n", "b"}));
  EXPECT_EQ(qwen2("a  \r"), (Words{"a", "  \r"}));
}

// Capitals give back what may be small: a letter without case, or a mark.
TEST(WordSplit, Gpt4oTellsCapitalsFromSmallLetters) {
  EXPECT_EQ(gpt4o("helloWorld HTTPServer ABC"), (Words{"hello", "World", " HTTPServer", " ABC"}));
  EXPECT_EQ(gpt4o("don't DON'T 'sa I'LLx"), (Words{"don't", " DON'T", " '", "sa", " I'LL", "x"}));
  EXPECT_EQ(gpt4o("A\u4e2dBC"), (Words{"A\u4e2d", "BC"}));
  EXPECT_EQ(gpt4o("A\u4e2dBCd"), (Words{"A\u4e2dBCd"}));
  EXPECT_EQ(gpt4o("\u0301a.\u0301"), (Words{"\u0301a", ".\u0301"}));
  EXPECT_EQ(gpt4o("1234 a/b //\r\n/x"), (Words{"123", "4", " a", "/b", " //\r\n/", "x"}));
  EXPECT_EQ(gpt4o("a  b \n c"), (Words{"a", " ", " b", " \n", " c"}));
}

}  // namespace
}  // namespace stof
