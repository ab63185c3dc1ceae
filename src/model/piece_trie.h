// SPDX-License-Identifier: Apache-2.0
// A set of byte strings with ids, as a double array (Aoki 1989): a step down is one addition and one comparison.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stof {

struct Piece {
  std::string text;
  std::int32_t id;
};

class PieceTrie {
 public:
  static constexpr std::int32_t kRoot = 0, kNone = -1;

  // Texts differ from one another; ids are not negative.
  explicit PieceTrie(std::span<const Piece> pieces);

  std::int32_t child(std::int32_t node, char byte) const {
    const std::int32_t next = units_[static_cast<std::size_t>(node)].base + static_cast<unsigned char>(byte);
    return units_[static_cast<std::size_t>(next)].parent == node ? next : kNone;
  }
  std::int32_t id(std::int32_t node) const { return units_[static_cast<std::size_t>(node)].id; }  // kNone: inner node
  std::int32_t walk(std::int32_t node, std::string_view text) const;                              // kNone: leaves it
  std::optional<std::int32_t> find(std::string_view text) const;

  struct Match {
    std::size_t bytes = 0;
    std::int32_t id = kNone;
  };
  // The longest piece that begins at `begin` of text, going down from `node`.
  Match longest(std::int32_t node, std::string_view text, std::size_t begin) const {
    Match match;
    for (std::size_t i = begin; i < text.size(); ++i) {
      node = child(node, text[i]);
      if (node == kNone) break;
      if (id(node) != kNone) match = {.bytes = i + 1 - begin, .id = id(node)};
    }
    return match;
  }

 private:
  struct Unit {
    std::int32_t base = 0;  // of the children: child b is unit base + b
    std::int32_t parent = kNone;
    std::int32_t id = kNone;
  };
  class Bases;

  std::vector<Unit> units_;  // at least 256 longer than the largest base
};

}  // namespace stof
