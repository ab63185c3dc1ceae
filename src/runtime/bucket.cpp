// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/bucket.h"

#include <algorithm>
#include <bit>

namespace stof {
namespace {

// Up to a multiple of the largest power of two that is at most value / 2^bits and at least `least`.
std::int64_t rounded_up(std::int64_t value, int bits, std::int64_t least) {
  if (value <= 0) return 0;
  const auto below = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(value - 1)));
  const std::int64_t step = std::max(least, below >> bits);
  return (value + step - 1) / step * step;
}

}  // namespace

std::int64_t bucket_rows(std::int64_t rows) { return rounded_up(rows, 3, 16); }

Bucket bucket_of(const Bucket& call, std::int64_t limit) {
  return {.rows = bucket_rows(call.rows),
          .texts = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(call.texts))),
          .longest = std::min(rounded_up(call.longest, 1, 64), limit)};
}

EvenCall even_call(std::int64_t texts, std::int64_t length, std::int64_t limit) {
  return {.texts = texts, .length = length, .bucket = bucket_of({texts * length, texts, length}, limit)};
}

}  // namespace stof
