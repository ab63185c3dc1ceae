// SPDX-License-Identifier: Apache-2.0
// Draft trees of problems, and bits that are of no tree: a kernel takes either.
#pragma once
#include <random>
#include <vector>

#include "tests/attention/problem.h"

namespace stof {

// Of each node the one it comes from, which is in front of it; -1 of a root, of which there may be several.
std::vector<std::int64_t> random_parents(std::int64_t nodes, std::mt19937& random);

// How many trees, of how many queries, in rows of how many words.
struct TreeForm {
  bool one_for_all = false;
  std::int64_t queries = 0;
  std::int64_t more_words = 0;  // between rows
};

// For a problem that has lengths of its queries: of every second item a tree, of the others any bits, with rows that
// have none. Bits that no query of an item reads are 1.
ProblemTrees random_trees(const ProblemShape& what, const TreeForm& form, unsigned seed);

// Of one item, by parents.
ProblemTrees trees_of(const std::vector<std::int64_t>& parents);

}  // namespace stof
