// SPDX-License-Identifier: Apache-2.0
#include "tests/attention/random_trees.h"

#include <algorithm>

namespace stof {
namespace {

ProblemTrees all_ones(std::int64_t items, const TreeForm& form) {
  ProblemTrees trees{.items = items, .queries = form.queries, .row_words = (form.queries + 31) / 32 + form.more_words};
  trees.words.assign(static_cast<std::size_t>(items * form.queries * trees.row_words), -1);
  return trees;
}

struct Bit {
  std::int64_t item, row, key;
};

void set(ProblemTrees& trees, const Bit& bit, bool value) {
  const std::int64_t at = (bit.item * trees.queries + bit.row) * trees.row_words + bit.key / 32;
  std::int32_t& word = trees.words[static_cast<std::size_t>(at)];
  const std::uint32_t one = 1u << (bit.key % 32), others = static_cast<std::uint32_t>(word) & ~one;
  word = static_cast<std::int32_t>(value ? others | one : others);
}

void set_tree(ProblemTrees& trees, std::int64_t item, const std::vector<std::int64_t>& parents) {
  const auto nodes = std::ssize(parents);
  for (std::int64_t row = 0; row < nodes; ++row) {
    for (std::int64_t key = 0; key < nodes; ++key) set(trees, {item, row, key}, false);
    for (std::int64_t node = row; node >= 0; node = parents[static_cast<std::size_t>(node)])
      set(trees, {item, row, node}, true);
  }
}

void set_any(ProblemTrees& trees, std::int64_t item, std::int64_t queries, std::mt19937& random) {
  constexpr std::int64_t kEmpty = 5;  // of so many rows one has no bit
  for (std::int64_t row = 0; row < queries; ++row)
    for (std::int64_t key = 0; key < queries; ++key)
      set(trees, {item, row, key}, row % kEmpty != 3 && std::bernoulli_distribution(0.4)(random));
}

}  // namespace

std::vector<std::int64_t> random_parents(std::int64_t nodes, std::mt19937& random) {
  std::vector<std::int64_t> parents(static_cast<std::size_t>(nodes));
  for (std::int64_t node = 0; node < nodes; ++node) {
    const std::int64_t nearest = std::max<std::int64_t>(-1, node - 9);  // long branches beside short ones
    parents[static_cast<std::size_t>(node)] = std::uniform_int_distribution<std::int64_t>(nearest, node - 1)(random);
    if (std::bernoulli_distribution(0.1)(random)) parents[static_cast<std::size_t>(node)] = -1;
  }
  return parents;
}

ProblemTrees random_trees(const ProblemShape& what, const TreeForm& form, unsigned seed) {
  std::mt19937 random(seed);
  const std::int64_t items = form.one_for_all ? 1 : what.shape.batch;
  ProblemTrees trees = all_ones(items, form);
  for (std::int64_t item = 0; item < items; ++item) {
    std::int64_t queries = form.queries;
    if (!form.one_for_all)
      queries = what.q_lengths.empty() ? what.shape.queries : what.q_lengths[static_cast<std::size_t>(item)];
    queries = std::min(queries, form.queries);
    if ((item + seed) % 2 == 0) set_tree(trees, item, random_parents(queries, random));
    else set_any(trees, item, queries, random);
  }
  return trees;
}

ProblemTrees trees_of(const std::vector<std::int64_t>& parents) {
  ProblemTrees trees = all_ones(1, {.queries = std::ssize(parents)});
  set_tree(trees, 0, parents);
  return trees;
}

}  // namespace stof
