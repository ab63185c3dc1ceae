// SPDX-License-Identifier: Apache-2.0
#include "src/base/printable.h"

#include <gtest/gtest.h>

#include "src/base/error.h"
#include "tests/expect_error.h"

namespace stof {
namespace {

using std::string_literals::operator""s;

TEST(Printable, KeepsTextAndLines) {
  for (const std::string text : {"", "a mask\n  causal\n\t^", "\xC3\xA9\xE4\xB8\xAD \xC2\xA0", "\xC2", "\xFF"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, ShowsControlCharacters) {
  EXPECT_EQ(printable("a\0b"s), "a\\x00b");
  EXPECT_EQ(printable("\x1B[31mred\r\x7F"), "\\x1B[31mred\\x0D\\x7F");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m\xC2\x80.\xC2\x9F"),
            "\\xC2\\x9B31m\\xC2\\x80.\\xC2\\x9F");
}

TEST(Printable, MessagesAre) {
  const auto refuse = [] { fail(ErrorKind::bad_file, "tensor '{}'; accepted: others", "a\0\x1B"s); };
  EXPECT_ERROR(refuse(), ErrorKind::bad_file, "tensor 'a\\x00\\x1B'; accepted: others");
}

}  // namespace
}  // namespace stof
