// SPDX-License-Identifier: Apache-2.0
// Which leaves of a tree decide a rectangle: what makes two rectangles alike without a look at their bits.
#include <algorithm>

#include "src/mask/bound.h"

namespace stof::bound {
namespace {

using Leaves = std::optional<std::uint64_t>;

template <class Leaf>
int number_in(Leaf&, int first) {
  return first;
}

int number_all(std::vector<Node>& nodes, int first) {
  for (Node& node : nodes) first = number_leaves(node, first);
  return first;
}

int number_in(And& both, int first) { return number_all(both.nodes, first); }

int number_in(Or& either, int first) { return number_all(either.nodes, first); }

int number_in(Not& inverse, int first) { return number_leaves(*inverse.node, first); }

template <class Term>
constexpr bool kIsLeaf = !std::same_as<Term, And> && !std::same_as<Term, Or> && !std::same_as<Term, Not>;

template <class Leaf>
bool only_difference(const Leaf&) {
  return false;
}

bool only_difference(const term::All&) { return true; }
bool only_difference(const term::None&) { return true; }
bool only_difference(const term::Causal&) { return true; }
bool only_difference(const term::Window&) { return true; }
bool only_difference(const term::Comb&) { return true; }
bool only_difference(const Where& leaf) { return leaf.only_difference(); }

// Full masks leave a conjunction as it is, empty ones a disjunction; the partial ones decide.
Leaves leaves_of(const std::vector<Node>& nodes, BlockKind neutral, Range positions, Range keys) {
  std::uint64_t all = 0;
  for (const Node& node : nodes) {
    const BlockKind kind = classify(node, positions, keys);
    if (kind == neutral) continue;
    if (kind != BlockKind::partial) return std::nullopt;
    const Leaves leaves = deciding_leaves(node, positions, keys);
    if (!leaves) return std::nullopt;
    all |= *leaves;
  }
  return all;
}

template <class Leaf>
Leaves leaves_in(const Node& node, const Leaf& leaf, Range, Range) {
  return only_difference(leaf) ? Leaves(std::uint64_t{1} << node.leaf) : std::nullopt;
}

Leaves leaves_in(const Node&, const And& both, Range positions, Range keys) {
  return leaves_of(both.nodes, BlockKind::full, positions, keys);
}

Leaves leaves_in(const Node&, const Or& either, Range positions, Range keys) {
  return leaves_of(either.nodes, BlockKind::empty, positions, keys);
}

Leaves leaves_in(const Node&, const Not& inverse, Range positions, Range keys) {
  return deciding_leaves(*inverse.node, positions, keys);
}

}  // namespace

int number_leaves(Node& node, int first) {
  return std::visit(
      [&]<class Kind>(Kind& term) {
        if constexpr (kIsLeaf<Kind>) node.leaf = first++;
        return number_in(term, first);
      },
      node.term);
}

std::optional<std::uint64_t> deciding_leaves(const Node& node, Range positions, Range keys) {
  return std::visit([&](const auto& term) { return leaves_in(node, term, positions, keys); }, node.term);
}

}  // namespace stof::bound
