// SPDX-License-Identifier: Apache-2.0
// Which operators are fused, as bits: a bit an operator of a block, the first 0; operators in a row with the same bit
// are one segment. "0011100" is 2 | 3 | 2 operators.
#pragma once
#include <compare>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stof {

struct FusionSegment {
  std::size_t begin = 0, end = 0;  // operators
  std::size_t size() const { return end - begin; }
  friend auto operator<=>(const FusionSegment&, const FusionSegment&) = default;
};

std::vector<FusionSegment> segments_of(std::string_view bits);
// The segments follow each other from operator 0 on.
std::string bits_of(std::span<const FusionSegment> segments);

struct Scheme {
  std::vector<std::string> bits;  // of each kind of block
  std::string text() const;       // with commas between them
  friend bool operator==(const Scheme&, const Scheme&) = default;
};

// What stands between the commas of a scheme's text.
std::vector<std::string> strings_of(std::string_view text);

// What a scheme must fit.
struct SchemeShape {
  std::vector<std::size_t> operators;  // of each kind of block
  std::size_t layer = 0;               // the kind that a single string is for
};

// As many strings as there are kinds of blocks, or one for the layers: the others are taken from `otherwise`. Throws
// invalid_argument.
Scheme parse_scheme(std::string_view text, const SchemeShape& shape, const Scheme& otherwise);

}  // namespace stof
