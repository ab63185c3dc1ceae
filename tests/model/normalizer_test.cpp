// SPDX-License-Identifier: Apache-2.0
#include "src/model/normalizer.h"

#include <gtest/gtest.h>

#include <string>

namespace stof {
namespace {

std::string normalized(std::string_view text) {
  std::string out;
  Normalizer({}).append(text, out);
  return out;
}

// The two marks, of a note's stem (class 216) and of its dot (226), are in each other's order; the package `tokenizers`
// gives the same.
TEST(Normalizer, WhatIsDroppedDoesNotKeepMarksApart) {
  for (const std::string_view dropped : {"", "\x01", "\x7f", "\x01\x02", "\u200B"})
    EXPECT_EQ(normalized("a\U0001D16D" + std::string(dropped) + "\U0001D165"), "a\U0001D165\U0001D16D") << dropped;
  for (const std::string_view kept : {"b", " ", "\x01 ", " \x01"})
    EXPECT_EQ(normalized("a\U0001D16D" + std::string(kept) + "\U0001D165"),
              "a\U0001D16D" + std::string(kept.find('b') == 0 ? "b" : " ") + "\U0001D165")
        << kept;
}

}  // namespace
}  // namespace stof
