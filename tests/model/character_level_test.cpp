// SPDX-License-Identifier: Apache-2.0
#include "src/model/character_level.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/model/marked_spaces.h"

namespace stof {
namespace {

using Ids = std::vector<std::int32_t>;

// a, b, U+00E9 and U+2581 with tokens, and bytes 0xE4, 0xB8 and 0xAD, of U+4E2D, with theirs.
CharacterLevelOptions small(std::optional<std::int32_t> unknown, bool fuse) {
  CharacterLevelOptions options;
  options.characters = {{U'a', 1}, {U'b', 2}, {U'\u00e9', 3}, {U'\u2581', 4}};
  options.bytes.fill(CharacterLevelOptions::kMissing);
  options.bytes[0xE4] = 10;
  options.bytes[0xB8] = 11;
  options.bytes[0xAD] = 12;
  if (unknown) options.unknown = {.id = *unknown, .ends = {U'<', U'>'}};
  options.fuse_unknown = fuse;
  options.merges = {{1, 2, 20}, {10, 11, 21}, {4, 20, 22}, {3, 3, 23}, {0, 1, 24}, {2, 0, 25}};
  for (const auto& [before, behind] :
       {std::pair(U'a', U'b'), {U'>', U'<'}, {U'\u2581', U'a'}, {U'\u00e9', U'\u00e9'}, {U'>', U'a'}, {U'b', U'<'}})
    options.joints.add(before, behind);
  return options;
}

Ids ids(const CharacterLevelOptions& options, std::string_view text) {
  Ids result;
  CharacterLevel(options).append_ids(text, result);
  return result;
}

TEST(CharacterLevel, MergesCharactersAndBytes) {
  EXPECT_EQ(ids(small(0, true), ""), Ids{});
  EXPECT_EQ(ids(small(0, true),
                "ab\xe2\x96\x81"
                "abb"),
            (Ids{20, 22, 2}));
  EXPECT_EQ(ids(small(0, true), "\xc3\xa9\xc3\xa9\xc3\xa9"), (Ids{23, 3}));
  EXPECT_EQ(ids(small(0, true), "a\xe4\xb8\xad"), (Ids{1, 21, 12}));
}

// As tokenizers 0.23.3: unknown characters are told behind bytes, which it writes down at once.
TEST(CharacterLevel, UnknownCharacters) {
  EXPECT_EQ(ids(small(0, true), "xyzb"), (Ids{0, 2}));
  EXPECT_EQ(ids(small(0, false), "xyb"), (Ids{0, 0, 2}));
  EXPECT_EQ(ids(small(0, true), "a\xe4\xb8\xae"), (Ids{1, 0}));  // of three bytes one has no token
  EXPECT_EQ(ids(small({}, true), "axy"), (Ids{1}));
  EXPECT_EQ(ids(small(0, false), "bxya"), (Ids{25, 24}));  // are merged, too
  EXPECT_EQ(ids(small(0, true), "x\xe4\xb8\xadyb"), (Ids{21, 12, 0, 2}));
  EXPECT_EQ(ids(small(0, false), "x\xe4\xb8\xady"), (Ids{21, 12, 0, 0}));
}

// A text is one word: a million characters take no longer than many short texts.
TEST(CharacterLevel, TakesLongTexts) {
  CharacterLevelOptions options = small(0, true);
  options.joints.add(U'a', U'a');
  for (std::int32_t level = 0; level < 16; ++level)
    options.merges.push_back({level == 0 ? 1 : 99 + level, level == 0 ? 1 : 99 + level, 100 + level});
  EXPECT_EQ(ids(options, std::string(std::size_t{1} << 20, 'a')), Ids(16, 115));
}

std::string marked(std::string_view part, bool mark_before) {
  std::string result;
  append_marked(part, mark_before, result);
  return result;
}

TEST(MarkedSpaces, TakeThePlaceOfSpaces) {
  EXPECT_EQ(marked("a b  c ", false),
            "a\xe2\x96\x81"
            "b\xe2\x96\x81\xe2\x96\x81"
            "c\xe2\x96\x81");
  EXPECT_EQ(marked("\t\xc2\xa0 ", true), "\xe2\x96\x81\t\xc2\xa0\xe2\x96\x81");
}

TEST(MarkedSpaces, OneIsPutBeforeAPart) {
  for (const bool begins_text : {false, true}) {
    EXPECT_FALSE(needs_mark("a", Prepend::never, begins_text));
    EXPECT_EQ(needs_mark("a", Prepend::first, begins_text), begins_text);
    EXPECT_TRUE(needs_mark("a", Prepend::always, begins_text));
    EXPECT_FALSE(needs_mark(" a", Prepend::always, begins_text));
    EXPECT_FALSE(needs_mark("\xe2\x96\x81", Prepend::always, begins_text));
  }
}

}  // namespace
}  // namespace stof
