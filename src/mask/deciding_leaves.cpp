// SPDX-License-Identifier: Apache-2.0
// Which leaves of a tree decide a rectangle: what makes two rectangles alike, or two bands, without a look at their
// bits.
#include <algorithm>
#include <numeric>

#include "src/mask/bound.h"

namespace stof::bound {
namespace {

template <class Leaf>
bool only_difference(const Leaf&) {
  return false;
}

bool only_difference(const term::All&) { return true; }
bool only_difference(const term::None&) { return true; }
bool only_difference(const term::Causal&) { return true; }
bool only_difference(const term::Window&) { return true; }
bool only_difference(const term::Comb&) { return true; }

// Of what repeats after so many keys and what does after so many: 0 where nothing of it is known.
std::int64_t both(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  if (a == b || a == 0 || b == 0) return a == b ? a : 0;
  return a > kMost || b > kMostPeriod ? 0 : std::lcm(a, b);
}

template <class Leaf>
std::int64_t key_period(const Leaf&) {
  return 0;
}

std::int64_t key_period(const term::Comb& comb) { return comb.reach >= kMaxExtent ? comb.stride : 0; }
std::int64_t key_period(const Where& where) { return where.periods().keys; }

// Longer than any mask has queries, it is not the multiple any more.
Period both(const Period& a, const Period& b) {
  constexpr std::int64_t kNone = std::int64_t{1} << 45;
  return {std::min(std::lcm(std::max<std::int64_t>(a.length, 1), std::max<std::int64_t>(b.length, 1)), kNone),
          std::max(a.queries, b.queries)};
}

// Of the leaves that decide a rectangle, so far.
struct Deciding {
  std::uint64_t leaves = 0;  // a bit each
  std::int64_t place = 0;    // in a grid
  Period period = {};        // of where() among them
  std::int64_t keys = 1;
};

// Adds those of a node; false where they have no name.
bool decide(const Node& node, Range positions, Range keys, Deciding& all);

// Full masks leave a conjunction as it is, empty ones a disjunction; the partial ones decide.
bool decide_joined(const std::vector<Node>& nodes, BlockKind neutral, Range positions, Range keys, Deciding& all) {
  return std::ranges::all_of(nodes, [&](const Node& node) {
    const BlockKind kind = classify(node, positions, keys);
    return kind == neutral || (kind == BlockKind::partial && decide(node, positions, keys, all));
  });
}

template <class Leaf>
bool decide_in(const Leaf& leaf, Range, Range, Deciding& all) {
  all.keys = both(all.keys, key_period(leaf));
  return only_difference(leaf);
}

bool decide_in(const term::Natten& leaf, Range positions, Range, Deciding& all) {
  const std::optional<std::int64_t> place = leaf.place_of(positions);
  if (!place || (all.place != 0 && all.place != *place)) return false;
  all.place = *place;
  all.keys = 0;
  return true;
}

bool decide_in(const Where& leaf, Range, Range, Deciding& all) {
  all.keys = both(all.keys, key_period(leaf));
  if (leaf.only_difference()) return true;
  all.period = both(all.period, leaf.periods().diagonal);
  return leaf.periods().diagonal.length > 0;
}

bool decide_in(const And& both, Range positions, Range keys, Deciding& all) {
  return decide_joined(both.nodes, BlockKind::full, positions, keys, all);
}

bool decide_in(const Or& either, Range positions, Range keys, Deciding& all) {
  return decide_joined(either.nodes, BlockKind::empty, positions, keys, all);
}

bool decide_in(const Not& inverse, Range positions, Range keys, Deciding& all) {
  return decide(*inverse.node, positions, keys, all);
}

bool decide(const Node& node, Range positions, Range keys, Deciding& all) {
  if (node.leaf >= 0) all.leaves |= std::uint64_t{1} << node.leaf;
  return std::visit([&](const auto& term) { return decide_in(term, positions, keys, all); }, node.term);
}

void number_in(Node& node, Leaves& before);

template <class Leaf>
void number_term(Node& node, Leaf& leaf, Leaves& before) {
  node.leaf = before.count++;
  before.differences += only_difference(leaf) ? 1 : 0;
  before.key_periods += key_period(leaf) > 0 ? 1 : 0;
}

void number_term(Node& node, term::Natten& leaf, Leaves& before) {
  node.leaf = before.count++;
  ++before.grids;
  before.grid = leaf;
}

void number_term(Node& node, Where& leaf, Leaves& before) {
  node.leaf = before.count++;
  const auto& [diagonal, rows, keys] = leaf.periods();
  before.key_periods += keys > 0 ? 1 : 0;
  if (rows.length > 0) {
    ++before.repeating;
    before.rows = both(before.rows, rows);
  }
  if (leaf.only_difference()) {
    ++before.differences;
  } else if (diagonal.length > 0) {
    ++before.periodic;
    before.period = both(before.period, diagonal);
  }
}

void number_term(Node&, And& both, Leaves& before) {
  for (Node& node : both.nodes) number_in(node, before);
}

void number_term(Node&, Or& either, Leaves& before) {
  for (Node& node : either.nodes) number_in(node, before);
}

void number_term(Node&, Not& inverse, Leaves& before) { number_in(*inverse.node, before); }

void number_in(Node& node, Leaves& before) {
  std::visit([&](auto& term) { number_term(node, term, before); }, node.term);
}

}  // namespace

Leaves number_leaves(Node& node) {
  Leaves leaves;
  number_in(node, leaves);
  return leaves;
}

// Bands with other names than these have to be shifted.
std::optional<NamedBand> band_of_rows(const Leaves& leaves, Range positions) {
  constexpr std::int64_t kMostNames = 16;
  if (leaves.repeating < leaves.count || leaves.rows.places(positions.size()) > kMostNames) return std::nullopt;
  const std::optional<std::int64_t> place = leaves.rows.place_of(positions);
  return place ? std::optional(NamedBand{.name = {.place = *place}, .origin = 0}) : std::nullopt;
}

std::optional<NamedBand> named_band(const Leaves& leaves, Range positions) {
  if (const std::optional<NamedBand> band = band_of_rows(leaves, positions)) return band;
  if (leaves.only_difference()) return NamedBand{.name = {}, .origin = positions.begin};
  if (leaves.periodic > 0 && leaves.differences + leaves.periodic == leaves.count) {
    const std::optional<std::int64_t> place = leaves.period.place_of(positions);
    if (!place) return std::nullopt;
    return NamedBand{.name = {.place = *place}, .origin = positions.begin};
  }
  if (leaves.grids != 1 || leaves.differences + 1 != leaves.count) return std::nullopt;
  std::optional<NamedBand> band = leaves.grid->band_of(positions);
  if (band && leaves.differences > 0) band->name.behind = positions.begin - band->origin;
  return band;
}

std::optional<DiagonalName> deciding_leaves(const Node& node, Range positions, Range keys) {
  Deciding all;
  if (!decide(node, positions, keys, all)) return std::nullopt;
  DiagonalName name{.leaves = all.leaves, .place = all.place, .keys = all.keys};
  if (all.period.length == 0) return name;
  const std::optional<std::int64_t> place = all.period.place_of(positions);
  if (!place || name.place != 0) return std::nullopt;
  name.place = *place;
  return name;
}

}  // namespace stof::bound
