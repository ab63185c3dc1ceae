// SPDX-License-Identifier: Apache-2.0
#include "src/model/piece_trie.h"

#include <algorithm>
#include <array>
#include <deque>

#include "src/base/narrow.h"

namespace stof {
namespace {

// Pieces first..last (of the sorted list) share their first `depth` bytes, and these lead to `node`.
struct Branch {
  std::int32_t node;
  std::size_t first, last, depth;
};

}  // namespace

// Finds room for the children of a node.
class PieceTrie::Bases {
 public:
  explicit Bases(std::vector<Unit>& units) : units_(units) {}

  // A base under which the units of all `bytes`, which ascend, are free.
  std::int32_t find(std::string_view bytes) {
    const auto is_free = [&](std::size_t base, char byte) {
      const std::size_t unit = base + static_cast<unsigned char>(byte);
      return unit != kRoot && units_[unit].parent == kNone;
    };
    std::size_t& first = first_[static_cast<unsigned char>(bytes[0])];
    while (make_room(first), !is_free(first, bytes[0])) ++first;
    std::size_t base = first;
    const auto fits = [&](char byte) { return is_free(base, byte); };
    while (make_room(base), !std::all_of(bytes.begin(), bytes.end(), fits)) ++base;
    return narrow<std::int32_t>(base, "units of a trie");
  }

 private:
  void make_room(std::size_t base) {
    if (base + 256 > units_.size()) units_.resize(2 * (base + 256));
  }

  std::vector<Unit>& units_;
  // By byte, the first base that may still have it free: units are never freed, so a search need not begin at 0.
  std::array<std::size_t, 256> first_{};
};

PieceTrie::PieceTrie(std::span<const Piece> pieces) : units_(256) {
  std::vector<const Piece*> sorted;
  for (const Piece& piece : pieces) sorted.push_back(&piece);
  std::sort(sorted.begin(), sorted.end(), [](const Piece* a, const Piece* b) { return a->text < b->text; });

  // Breadth first: the nodes near the root, with many children and the most traffic, are placed together.
  std::deque<Branch> todo{{.node = kRoot, .first = 0, .last = sorted.size(), .depth = 0}};
  Bases bases(units_);
  for (; !todo.empty(); todo.pop_front()) {
    auto [node, first, last, depth] = todo.front();
    if (first < last && sorted[first]->text.size() == depth)
      units_[static_cast<std::size_t>(node)].id = sorted[first++]->id;
    if (first == last) continue;
    std::string bytes;
    std::vector<std::size_t> begins;
    for (std::size_t i = first; i < last; ++i) {
      if (!bytes.empty() && bytes.back() == sorted[i]->text[depth]) continue;
      bytes += sorted[i]->text[depth];
      begins.push_back(i);
    }
    begins.push_back(last);
    const std::int32_t base = bases.find(bytes);
    units_[static_cast<std::size_t>(node)].base = base;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::int32_t child_node = base + static_cast<unsigned char>(bytes[i]);
      units_[static_cast<std::size_t>(child_node)].parent = node;
      todo.push_back({.node = child_node, .first = begins[i], .last = begins[i + 1], .depth = depth + 1});
    }
  }
  units_.shrink_to_fit();
}

std::int32_t PieceTrie::walk(std::int32_t node, std::string_view text) const {
  for (std::size_t i = 0; i < text.size() && node != kNone; ++i) node = child(node, text[i]);
  return node;
}

std::optional<std::int32_t> PieceTrie::find(std::string_view text) const {
  const std::int32_t node = walk(kRoot, text);
  if (node == kNone || id(node) == kNone) return {};
  return id(node);
}

}  // namespace stof
