// SPDX-License-Identifier: Apache-2.0
// Sizes that calls on a device are rounded up to, so that what was planned and recorded for one call serves others.
#pragma once
#include <compare>
#include <cstdint>

namespace stof {

struct Bucket {
  std::int64_t rows = 0, texts = 0;
  std::int64_t longest = 0;  // tokens of a text
  friend auto operator<=>(const Bucket&, const Bucket&) = default;
};

// A call of texts that are equally long, and what it is rounded up to.
struct EvenCall {
  std::int64_t texts = 0, length = 0;
  Bucket bucket;
};

// Rows a call of `rows` is run with: at most an eighth more, or up to a multiple of 16.
std::int64_t bucket_rows(std::int64_t rows);

// The smallest bucket that holds the call. No text is longer than `limit`.
Bucket bucket_of(const Bucket& call, std::int64_t limit);

// No text is longer than `limit`.
EvenCall even_call(std::int64_t texts, std::int64_t length, std::int64_t limit);

}  // namespace stof
