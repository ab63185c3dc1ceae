// SPDX-License-Identifier: Apache-2.0
// Which leaves of a tree decide a rectangle: what makes two rectangles alike, or two bands, without a look at their
// bits.
#include <algorithm>
#include <numeric>

#include "src/mask/bound.h"

namespace stof::bound {
namespace {

using Name = std::optional<DiagonalName>;

template <class Leaf>
bool only_difference(const Leaf&) {
  return false;
}

bool only_difference(const term::All&) { return true; }
bool only_difference(const term::None&) { return true; }
bool only_difference(const term::Causal&) { return true; }
bool only_difference(const term::Window&) { return true; }
bool only_difference(const term::Comb&) { return true; }

// Full masks leave a conjunction as it is, empty ones a disjunction; the partial ones decide.
Name name_of(const std::vector<Node>& nodes, BlockKind neutral, Range positions, Range keys) {
  DiagonalName all;
  for (const Node& node : nodes) {
    const BlockKind kind = classify(node, positions, keys);
    if (kind == neutral) continue;
    if (kind != BlockKind::partial) return std::nullopt;
    const Name name = deciding_leaves(node, positions, keys);
    if (!name || (all.place != 0 && name->place != 0 && all.place != name->place)) return std::nullopt;
    all.leaves |= name->leaves;
    all.place = std::max(all.place, name->place);
  }
  return all;
}

template <class Leaf>
Name name_in(const Node& node, const Leaf& leaf, Range, Range) {
  if (!only_difference(leaf)) return std::nullopt;
  return DiagonalName{.leaves = std::uint64_t{1} << node.leaf};
}

Name name_in(const Node& node, const term::Natten& leaf, Range positions, Range) {
  const std::optional<std::int64_t> place = leaf.place_of(positions);
  if (!place) return std::nullopt;
  return DiagonalName{.leaves = std::uint64_t{1} << node.leaf, .place = *place};
}

Name name_in(const Node& node, const Where& leaf, Range positions, Range) {
  const std::uint64_t leaves = std::uint64_t{1} << node.leaf;
  if (leaf.only_difference()) return DiagonalName{.leaves = leaves};
  const std::optional<std::int64_t> place = leaf.period().place_of(positions);
  if (!place) return std::nullopt;
  return DiagonalName{.leaves = leaves, .place = *place};
}

Name name_in(const Node&, const And& both, Range positions, Range keys) {
  return name_of(both.nodes, BlockKind::full, positions, keys);
}

Name name_in(const Node&, const Or& either, Range positions, Range keys) {
  return name_of(either.nodes, BlockKind::empty, positions, keys);
}

Name name_in(const Node&, const Not& inverse, Range positions, Range keys) {
  return deciding_leaves(*inverse.node, positions, keys);
}

// Longer than any mask has queries, it is not the multiple any more.
DiagonalPeriod both(const DiagonalPeriod& a, const DiagonalPeriod& b) {
  constexpr std::int64_t kNone = std::int64_t{1} << 45;
  return {std::min(std::lcm(std::max<std::int64_t>(a.length, 1), b.length), kNone), b.queries};
}

void number_in(Node& node, Leaves& before);

template <class Leaf>
void number_term(Node& node, Leaf& leaf, Leaves& before) {
  node.leaf = before.count++;
  before.differences += only_difference(leaf) ? 1 : 0;
}

void number_term(Node& node, term::Natten& leaf, Leaves& before) {
  node.leaf = before.count++;
  ++before.grids;
  before.grid = leaf;
}

void number_term(Node& node, Where& leaf, Leaves& before) {
  node.leaf = before.count++;
  if (leaf.only_difference()) {
    ++before.differences;
  } else if (const auto& [length, queries] = leaf.period(); length > 0) {
    ++before.periodic;
    before.period = both(before.period, {length, queries});
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

std::optional<NamedBand> named_band(const Leaves& leaves, Range positions) {
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
  return std::visit([&](const auto& term) { return name_in(node, term, positions, keys); }, node.term);
}

}  // namespace stof::bound
