// SPDX-License-Identifier: Apache-2.0
// Reads the arguments of one term and remembers where each stood, so that a wrong value is pointed at.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "src/mask/argument.h"
#include "src/mask/text/cursor.h"
#include "stof/mask.h"

namespace stof {

class Arguments {
 public:
  // `usage`: "window(w) or window(l,r)".
  Arguments(Cursor& cursor, std::string_view usage, const std::filesystem::path& folder)
      : cursor_(cursor), usage_(usage), folder_(folder) {}

  std::int64_t integer();
  std::uint64_t seed();
  bool next_is_list();
  std::vector<std::int64_t> integers();
  std::vector<Segment> segments();
  struct Array {
    std::string file;  // as written
    Tensor tensor;
  };
  Array array();
  std::vector<Selection> selections(std::vector<Mask>& otherwise);  // `otherwise`: none or one
  bool more() { return cursor_.peek() == ','; }
  Cursor& start();  // of an argument that the caller reads
  void close() { cursor_.expect(')', in_usage()); }

  [[noreturn]] void point_at(const ArgumentError& error) const;

 private:
  struct Place {
    std::size_t begin;
    std::vector<std::size_t> elements;
  };
  std::string in_usage() const;
  std::int64_t number();
  Segment segment();
  template <class Read>
  void list(std::size_t most, Read read);

  Cursor& cursor_;
  std::string_view usage_;
  const std::filesystem::path& folder_;
  std::vector<Place> places_;
};

// The expression inside where(EXPR). Defined in where.cpp.
Mask read_where(Cursor& cursor);

// The grammar's top: terms joined by | and &. Defined in parse.cpp.
Mask parse_expression(Cursor& cursor, const std::filesystem::path& folder);

}  // namespace stof
