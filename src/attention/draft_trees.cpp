// SPDX-License-Identifier: Apache-2.0
#include "src/attention/draft_trees.h"

#include <limits>

#include "src/attention/call_tensors.h"
#include "src/base/error.h"

namespace stof {
namespace {

constexpr std::int64_t kBits = 32;  // of a word

void check_tree(const TensorView& tree, const AttentionShape& shape, std::int64_t items) {
  if (shape.tree_queries == 0)
    fail(ErrorKind::invalid_argument,
         "attention: a tree with a plan for none; accepted where the plan's shape has tree_queries");
  const bool right_rank = tree.dtype == DType::i32 && tree.rank() == 3 && tree.strides.size() == 3;
  if (!right_rank || (tree.dim(0) != 1 && tree.dim(0) != items) || tree.dim(1) < 1 ||
      tree.dim(1) > shape.tree_queries || tree.dim(2) != (tree.dim(1) + kBits - 1) / kBits)
    fail(ErrorKind::invalid_argument,
         "attention: tree is {} {}; accepted: i32 [{} or 1, T, ceil(T / 32)] with T of 1..{}, the planned tree_queries",
         name_of(tree.dtype), to_string(tree.shape), items, shape.tree_queries);
  constexpr std::int64_t kMostStride = std::numeric_limits<std::int32_t>::max();
  if ((tree.dim(2) > 1 && tree.strides[2] != 1) || tree.strides[0] < 0 || tree.strides[1] < 0 ||
      tree.strides[1] > kMostStride)
    fail(ErrorKind::invalid_argument,
         "attention: tree has strides {}; accepted: 0 and more, from row to row at most {}, the last one 1",
         to_string(tree.strides), kMostStride);
  check_has_memory("tree", tree);
}

}  // namespace

DraftTrees draft_trees(const AttentionArguments& arguments, const AttentionShape& shape, std::int64_t items) {
  if (!arguments.tree) return {};
  const TensorView& tree = *arguments.tree;
  check_tree(tree, shape, items);
  return {.words = tree.as<std::int32_t>(),
          .item_stride = tree.dim(0) == 1 ? 0 : tree.strides[0],
          .row_stride = tree.strides[1],
          .queries = tree.dim(1)};
}

}  // namespace stof
