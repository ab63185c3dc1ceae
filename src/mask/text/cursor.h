// SPDX-License-Identifier: Apache-2.0
// A place in the text of a mask, and errors that point at it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "stof/error.h"

namespace stof {

class Cursor {
 public:
  explicit Cursor(std::string_view text);  // refuses more than kMaxText bytes

  // Skips spaces; every question below does.
  std::size_t place();
  bool at_end() { return place() == text_.size(); }
  char peek() { return at_end() ? '\0' : text_[at_]; }
  bool eat(std::string_view token);
  // `where` completes "expected ',' ...".
  void expect(char token, std::string_view where);
  std::string_view word();    // letters, digits and _, starting with a letter; empty when there is none
  std::string_view digits();  // empty when there is none
  // Of the digits here, behind the minus at `sign` where there was one; nothing where there are none. Refuses what no
  // int64_t holds.
  std::optional<std::int64_t> integer(std::optional<std::size_t> sign = {});
  // Everything up to one of `stops` or the end, without the spaces around it.
  std::string_view until(std::string_view stops);
  std::string quoted();  // after peek() said ' or "; a backslash keeps the character after it
  std::string got();     // "the end", or what stands here, for messages

  [[noreturn]] void fail_here(std::string_view message) { fail_at(place(), message); }
  void count_term();  // refuses more than kMaxTerms
  // "mask: MESSAGE", the line of the place, and a caret under it.
  [[noreturn]] void fail_at(std::size_t place, std::string_view message,
                            ErrorKind kind = ErrorKind::invalid_argument) const;

  int depth() const { return depth_; }
  // Guards recursion: `Nested deeper(cursor, most)` refuses more than so many levels above `base`.
  class Nested {
   public:
    Nested(Cursor& cursor, int most, int base = 0);
    ~Nested() { --cursor_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    Cursor& cursor_;
  };

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::size_t terms_ = 0;
};

}  // namespace stof
