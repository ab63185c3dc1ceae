// SPDX-License-Identifier: Apache-2.0
#include "src/mask/text/arguments.h"

#include <charconv>

#include "src/mask/expression.h"
#include "src/tensor/npy.h"

namespace stof {

std::string Arguments::in_usage() const { return fmt::format("in {}", usage_); }

Cursor& Arguments::start() {
  cursor_.expect(places_.empty() ? '(' : ',', in_usage());
  places_.push_back({cursor_.place(), {}});
  return cursor_;
}

std::int64_t Arguments::number() {
  const std::size_t begin = cursor_.place();
  const auto sign = cursor_.eat("-") ? std::optional(begin) : std::nullopt;
  const std::optional<std::int64_t> value = cursor_.integer(sign);
  if (!value) cursor_.fail_here(fmt::format("expected a number {}; got {}", in_usage(), cursor_.got()));
  return *value;
}

std::int64_t Arguments::integer() {
  start();
  return number();
}

std::uint64_t Arguments::seed() {
  start();
  const std::size_t begin = cursor_.place();
  const std::string_view digits = cursor_.digits();
  if (digits.empty())
    cursor_.fail_here(fmt::format("expected a seed, 0 to 2^64 - 1, {}; got {}", in_usage(), cursor_.got()));
  std::uint64_t value = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc())
    cursor_.fail_at(begin, fmt::format("seed {} does not fit 64 bits", digits));
  return value;
}

template <class Read>
void Arguments::list(std::size_t most, Read read) {
  start();
  cursor_.expect('[', in_usage());
  if (cursor_.eat("]")) return;
  do {
    if (places_.back().elements.size() == most)
      cursor_.fail_here(fmt::format("more than {} elements {}", most, in_usage()));
    places_.back().elements.push_back(cursor_.place());
    read();
  } while (cursor_.eat(","));
  cursor_.expect(']', in_usage());
}

bool Arguments::next_is_list() {
  Cursor ahead = cursor_;
  return (ahead.eat("(") || ahead.eat(",")) && ahead.peek() == '[';
}

std::vector<std::int64_t> Arguments::integers() {
  std::vector<std::int64_t> values;
  list(kMaxElements, [&] { values.push_back(number()); });
  return values;
}

Segment Arguments::segment() {
  cursor_.expect('[', in_usage());
  Segment segment{};
  for (std::int64_t* bound : {&segment.query_begin, &segment.query_end, &segment.key_begin, &segment.key_end}) {
    *bound = number();
    cursor_.expect(',', in_usage());
  }
  const std::size_t place = cursor_.place();
  const bool is_quoted = cursor_.peek() == '"' || cursor_.peek() == '\'';
  const std::string kind = is_quoted ? cursor_.quoted() : std::string(cursor_.word());
  if (kind != "full" && kind != "causal")
    cursor_.fail_at(place, fmt::format("segment kind '{}'; accepted: \"full\", \"causal\"", kind));
  segment.causal = kind == "causal";
  cursor_.expect(']', in_usage());
  return segment;
}

std::vector<Segment> Arguments::segments() {
  std::vector<Segment> segments;
  list(kMaxSegments, [&] { segments.push_back(segment()); });
  return segments;
}

Arguments::Array Arguments::array() {
  start();
  const std::size_t place = cursor_.place();
  const bool is_quoted = cursor_.peek() == '"' || cursor_.peek() == '\'';
  const std::string name = is_quoted ? cursor_.quoted() : std::string(cursor_.until(",)"));
  if (name.empty()) cursor_.fail_at(place, fmt::format("expected the name of an .npy file {}", in_usage()));
  if (name.find('\0') != name.npos) cursor_.fail_at(place, "the name of an .npy file with a NUL byte in it");
  if (!is_quoted && name[0] == '#')
    cursor_.fail_at(place, fmt::format("array {} was held in memory when this mask was printed; save it as .npy and "
                                       "write the file's name here",
                                       name));
  try {
    return {.file = name, .tensor = read_npy(folder_ == "." ? std::filesystem::path(name) : folder_ / name)};
  } catch (const Error& error) {
    cursor_.fail_at(place, error.what(), error.kind());
  }
}

std::vector<Selection> Arguments::selections(std::vector<Mask>& otherwise) {
  std::vector<Selection> selections;
  const Cursor::Nested nested(cursor_, kMaxDepth);
  places_.push_back({cursor_.place(), {}});
  cursor_.expect('(', in_usage());
  do {
    const std::size_t place = cursor_.place();
    std::int64_t first = 0, last = 0;
    const bool rest = cursor_.eat("*");
    if (rest && !otherwise.empty()) cursor_.fail_at(place, "a second '*'");
    if (!rest) {
      first = last = number();
      if (cursor_.eat("-")) last = number();
      places_.back().elements.push_back(place);
    }
    cursor_.expect(':', in_usage());
    Mask mask = parse_expression(cursor_, folder_);
    if (rest) otherwise.push_back(std::move(mask));
    else selections.push_back({first, last, std::move(mask)});
  } while (cursor_.eat(","));
  return selections;
}

void Arguments::point_at(const ArgumentError& error) const {
  std::size_t place = 0;
  if (const auto index = static_cast<std::size_t>(error.index()); index < places_.size()) {
    const auto element = static_cast<std::size_t>(error.element());
    const Place& argument = places_[index];
    place = error.element() >= 0 && element < argument.elements.size() ? argument.elements[element] : argument.begin;
  }
  cursor_.fail_at(place, error.what());
}

}  // namespace stof
