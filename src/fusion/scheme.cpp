// SPDX-License-Identifier: Apache-2.0
#include "src/fusion/scheme.h"

#include <fmt/ranges.h>

#include "src/base/error.h"

namespace stof {
namespace {

void check(const std::string& bits, std::size_t operators) {
  if (bits.find_first_not_of("01") != std::string::npos)
    fail(ErrorKind::invalid_argument, "scheme '{}'; accepted: 0 and 1, as in 0011", bits);
  if (bits.empty())
    fail(ErrorKind::invalid_argument, "scheme of an empty string; accepted: {} bits, one an operator", operators);
  if (bits.size() != operators)
    fail(ErrorKind::invalid_argument, "scheme {} has {} bits; accepted: {}, one an operator", bits, bits.size(),
         operators);
  if (bits.front() != '0') fail(ErrorKind::invalid_argument, "scheme {} begins with 1; accepted: 0 first", bits);
}

}  // namespace

std::vector<std::string> strings_of(std::string_view text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') parts.emplace_back();
    else parts.back() += c;
  }
  return parts;
}

std::vector<FusionSegment> segments_of(std::string_view bits) {
  std::vector<FusionSegment> segments;
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (i == 0 || bits[i] != bits[i - 1]) segments.push_back({i, i});
    segments.back().end = i + 1;
  }
  return segments;
}

std::string bits_of(std::span<const FusionSegment> segments) {
  std::string bits;
  for (std::size_t s = 0; s < segments.size(); ++s) bits.append(segments[s].size(), s % 2 == 0 ? '0' : '1');
  return bits;
}

std::string Scheme::text() const { return fmt::format("{}", fmt::join(bits, ",")); }

Scheme parse_scheme(std::string_view text, const SchemeShape& shape, const Scheme& otherwise) {
  const std::vector<std::string> parts = strings_of(text);
  Scheme scheme = otherwise;
  if (parts.size() == 1) scheme.bits.at(shape.layer) = parts.front();
  else if (parts.size() == shape.operators.size()) scheme.bits = parts;
  else
    fail(ErrorKind::invalid_argument, "scheme of {} strings; accepted: 1, for the layers{}", parts.size(),
         shape.operators.size() == 1 ? "" : fmt::format(", or {}, for each kind of block", shape.operators.size()));
  for (std::size_t k = 0; k < scheme.bits.size(); ++k) check(scheme.bits[k], shape.operators[k]);
  return scheme;
}

}  // namespace stof
