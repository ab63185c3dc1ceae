// SPDX-License-Identifier: Apache-2.0
#include "src/model/piece_trie.h"

#include <algorithm>
#include <array>
#include <deque>
#include <numeric>

#include "src/base/narrow.h"

namespace stof {
namespace {

// Pieces first..last (of the sorted list) share their first `depth` bytes, and these lead to `node`.
struct Branch {
  std::int32_t node;
  std::size_t first, last, depth;
};

// A free unit at which so many nodes did not fit is given up, so that each is tried a bounded number of times, whatever
// holes a vocabulary leaves.
constexpr std::uint8_t kMostFailures = 64;

}  // namespace

// Hands out room for the children of nodes; skips units in use by a chain that is shortened as it is followed.
class PieceTrie::Bases {
 public:
  explicit Bases(std::vector<Unit>& units) : units_(units) { make_room(0); }

  // A base under which the units of all `bytes`, which ascend, are free; from now on they are not.
  std::int32_t take(std::string_view bytes) {
    const auto least = static_cast<unsigned char>(bytes[0]);
    std::size_t base = 0;
    const auto is_free = [&](char byte) {
      const std::size_t unit = base + static_cast<unsigned char>(byte);
      return next_[unit] == unit;
    };
    for (std::size_t unit = next_free(least);; unit = next_free(unit + 1)) {
      base = unit - least;
      make_room(base);
      if (std::all_of(bytes.begin(), bytes.end(), is_free)) break;
      if (++failures_[unit] == kMostFailures) ++next_[unit];
    }
    for (const char byte : bytes) ++next_[base + static_cast<unsigned char>(byte)];
    largest_ = std::max(largest_, base);
    return narrow<std::int32_t>(base, "units of a trie");
  }
  // Drops what is behind the children of the last base.
  void trim() {
    units_.resize(largest_ + 257);
    units_.shrink_to_fit();
  }

 private:
  std::size_t next_free(std::size_t unit) {
    while (next_[unit] != unit) unit = next_[unit] = next_[next_[unit]];
    return unit;
  }
  void make_room(std::size_t base) {
    if (base + 257 <= units_.size()) return;
    const std::size_t old_size = next_.size();
    units_.resize(2 * (base + 257));
    next_.resize(units_.size());
    failures_.resize(units_.size());
    std::iota(next_.begin() + static_cast<std::ptrdiff_t>(old_size), next_.end(), old_size);
    if (old_size == 0) ++next_[kRoot];
  }

  std::vector<Unit>& units_;
  std::size_t largest_ = 0;
  std::vector<std::size_t> next_;       // of a free unit: itself; of one in use: some later unit
  std::vector<std::uint8_t> failures_;  // nodes that did not fit at the unit
};

PieceTrie::PieceTrie(std::span<const Piece> pieces) {
  std::vector<const Piece*> sorted;
  for (const Piece& piece : pieces) sorted.push_back(&piece);
  const auto by_text = [](const Piece* a, const Piece* b) { return a->text < b->text; };
  if (!std::is_sorted(sorted.begin(), sorted.end(), by_text)) std::sort(sorted.begin(), sorted.end(), by_text);

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
    const std::int32_t base = bases.take(bytes);
    units_[static_cast<std::size_t>(node)].base = base;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::int32_t child_node = base + static_cast<unsigned char>(bytes[i]);
      units_[static_cast<std::size_t>(child_node)].parent = node;
      todo.push_back({.node = child_node, .first = begins[i], .last = begins[i + 1], .depth = depth + 1});
    }
  }
  bases.trim();
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
