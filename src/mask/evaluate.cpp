// SPDX-License-Identifier: Apache-2.0
// The three questions, asked of a bound tree.
#include <algorithm>
#include <array>

#include "src/mask/bound.h"

namespace stof::bound {
namespace {

// ---- allows

template <OneInterval Leaf>
bool allows_of(const Leaf& leaf, std::int64_t p, std::int64_t key) {
  return leaf.keys(p).contains(key);
}

template <class Leaf>
bool allows_of(const Leaf& leaf, std::int64_t p, std::int64_t key) {
  return leaf.allows(p, key);
}

bool allows_of(const And& both, std::int64_t p, std::int64_t key) {
  return std::all_of(both.nodes.begin(), both.nodes.end(), [&](const Node& node) { return allows(node, p, key); });
}

bool allows_of(const Or& either, std::int64_t p, std::int64_t key) {
  return std::any_of(either.nodes.begin(), either.nodes.end(), [&](const Node& node) { return allows(node, p, key); });
}

bool allows_of(const Not& inverse, std::int64_t p, std::int64_t key) { return !allows(*inverse.node, p, key); }

// ---- classify

// Both ends of the interval never decrease with p, so the first and last row bound all rows.
template <OneInterval Leaf>
BlockKind classify_of(const Leaf& leaf, Range positions, Range keys) {
  const Range first = leaf.keys(positions.begin), last = leaf.keys(positions.end - 1);
  if (intersect(keys, {first.begin, last.end}).empty()) return BlockKind::empty;
  return intersect(first, last).contains(keys) ? BlockKind::full : BlockKind::partial;
}

template <class Leaf>
BlockKind classify_of(const Leaf& leaf, Range positions, Range keys) {
  return leaf.classify(positions, keys);
}

BlockKind classify_of(const And& both, Range positions, Range keys) {
  BlockKind kind = BlockKind::full;
  for (const Node& node : both.nodes) {
    kind = std::min(kind, classify(node, positions, keys));
    if (kind == BlockKind::empty) break;
  }
  return kind;
}

BlockKind classify_of(const Or& either, Range positions, Range keys) {
  BlockKind kind = BlockKind::empty;
  for (const Node& node : either.nodes) {
    kind = std::max(kind, classify(node, positions, keys));
    if (kind == BlockKind::full) break;
  }
  return kind;
}

BlockKind opposite(BlockKind kind) {
  if (kind == BlockKind::partial) return kind;
  return kind == BlockKind::full ? BlockKind::empty : BlockKind::full;
}

BlockKind classify_of(const Not& inverse, Range positions, Range keys) {
  return opposite(classify(*inverse.node, positions, keys));
}

// ---- fill

void clear(const TileBits& tile) { std::fill_n(tile.words, tile.word_count(), 0); }

// Up to here a word computed without branches is cheaper than filling a stretch.
constexpr std::int64_t kFewWords = 4;

template <OneInterval Leaf>
void fill_of(const Leaf& leaf, const TileBits& tile) {
  const std::int64_t words = tile.words_per_row();
  std::uint64_t* row = tile.words;
  for (std::int64_t p = tile.positions.begin; p < tile.positions.end; ++p, row += words) {
    const Range allowed = intersect(leaf.keys(p), tile.keys);
    const std::int64_t begin = allowed.begin - tile.keys.begin, end = allowed.end - tile.keys.begin;
    if (words > kFewWords) {
      std::fill_n(row, words, 0);
      set_bits(row, begin, end);
    } else {
      for (std::int64_t w = 0; w < words; ++w) row[w] = bits_of_word(begin, end, w);
    }
  }
}

// Leaves that know more about a tile than about its rows.
template <class Leaf>
requires requires(const Leaf& leaf, const TileBits& tile) { leaf.fill(tile); }
void fill_of(const Leaf& leaf, const TileBits& tile) { leaf.fill(tile); }

template <class Leaf>
void fill_of(const Leaf& leaf, const TileBits& tile) {
  clear(tile);
  for (std::int64_t p = tile.positions.begin; p < tile.positions.end; ++p) leaf.fill(p, tile.row(p));
}

void fill_whole(const TileBits& tile) { fill_of(term::All{}, tile); }

// Combines the nodes that `neutral` does not decide: full parts leave a conjunction as it is, empty ones a disjunction.
template <class Combine>
void fill_joined(const std::vector<Node>& nodes, const TileBits& tile, BlockKind neutral, Combine combine) {
  std::array<std::uint64_t, kTileWords> scratch;
  TileBits part = tile;
  for (const Node& node : nodes) {
    const BlockKind kind = classify(node, tile.positions, tile.keys);
    if (kind == neutral) continue;
    if (kind == opposite(neutral)) return kind == BlockKind::full ? fill_whole(tile) : clear(tile);
    fill(node, part);
    if (part.words == tile.words) part.words = scratch.data();
    else
      for (std::int64_t w = 0; w < tile.word_count(); ++w) tile.words[w] = combine(tile.words[w], part.words[w]);
  }
  if (part.words != tile.words) return;
  neutral == BlockKind::full ? fill_whole(tile) : clear(tile);
}

void fill_of(const And& both, const TileBits& tile) {
  fill_joined(both.nodes, tile, BlockKind::full, [](std::uint64_t a, std::uint64_t b) { return a & b; });
}

void fill_of(const Or& either, const TileBits& tile) {
  fill_joined(either.nodes, tile, BlockKind::empty, [](std::uint64_t a, std::uint64_t b) { return a | b; });
}

void fill_of(const Not& inverse, const TileBits& tile) {
  fill(*inverse.node, tile);
  const std::int64_t words = tile.words_per_row(), rest = tile.keys.size() & 63;
  const std::uint64_t last = rest == 0 ? ~std::uint64_t{0} : ~(~std::uint64_t{0} << rest);
  for (std::int64_t w = 0; w < tile.word_count(); ++w)
    tile.words[w] = ~tile.words[w] & ((w + 1) % words == 0 ? last : ~std::uint64_t{0});
}

}  // namespace

bool allows(const Node& node, std::int64_t p, std::int64_t key) {
  return std::visit([&](const auto& term) { return allows_of(term, p, key); }, node.term);
}

BlockKind classify(const Node& node, Range positions, Range keys) {
  return std::visit([&](const auto& term) { return classify_of(term, positions, keys); }, node.term);
}

void fill(const Node& node, const TileBits& tile) {
  std::visit([&](const auto& term) { fill_of(term, tile); }, node.term);
}

}  // namespace stof::bound
