// SPDX-License-Identifier: Apache-2.0
// Terms that carry an array, against their definitions.
#include <array>
#include <initializer_list>

#include "src/mask/range.h"
#include "tests/mask/naive.h"

namespace stof {
namespace {

using Index = std::int64_t;

Tensor random_booleans(const Shape& shape, unsigned seed) {
  Tensor tensor(DType::boolean, shape);
  std::mt19937 random(seed);
  for (Index i = 0; i < tensor.size(); ++i) tensor.as<std::uint8_t>()[i] = random() % 3 == 0 ? 1 : 0;
  return tensor;
}

Tensor ids_of(const Shape& shape, std::initializer_list<std::int32_t> values) {
  Tensor tensor(DType::i32, shape);
  std::copy(values.begin(), values.end(), tensor.as<std::int32_t>());
  return tensor;
}

bool at(const Tensor& tensor, std::initializer_list<Index> index) {
  Index offset = 0;
  std::size_t d = 0;
  for (const Index i : index) {
    const Index size = tensor.shape()[d++];
    offset = offset * size + (size == 1 ? 0 : i);
  }
  return tensor.as<std::uint8_t>()[offset] != 0;
}

TEST(ArrayTerms, BitsOfEveryRankAndBroadcast) {
  const MaskExtent extent{.queries = 70, .keys = 130, .batch = 2, .heads = 3};
  const Index first = extent.offset();  // bits are indexed by row
  for (const Shape& shape : {Shape{70, 130}, {1, 130}, {70, 1}, {1, 1}}) {
    const Tensor array = random_booleans(shape, 1);
    expect_definition(bits(array.view()), extent, [&](Index, Index, Index p, Index j) {
      return at(array, {p - first, j});
    });
  }
  for (const Shape& shape : {Shape{3, 70, 130}, {1, 70, 130}, {3, 1, 130}}) {
    const Tensor array = random_booleans(shape, 2);
    expect_definition(bits(array.view()), extent, [&](Index, Index h, Index p, Index j) {
      return at(array, {h, p - first, j});
    });
  }
  for (const Shape& shape : {Shape{2, 3, 70, 130}, {2, 1, 70, 130}, {1, 3, 70, 130}, {2, 3, 1, 1}}) {
    const Tensor array = random_booleans(shape, 3);
    expect_definition(bits(array.view()), extent, [&](Index b, Index h, Index p, Index j) {
      return at(array, {b, h, p - first, j});
    });
  }
}

TEST(ArrayTerms, BitsOfMoreQueriesThanKeys) {
  const MaskExtent extent{.queries = 200, .keys = 70, .batch = 1, .heads = 2};
  for (const Shape& shape : {Shape{200, 70}, {2, 200, 70}, {1, 200, 1}, {2, 1, 70}}) {
    const Tensor array = random_booleans(shape, 8);
    const bool by_head = shape.size() == 3;
    expect_definition(bits(array.view()), extent, [&](Index, Index h, Index p, Index j) {
      return by_head ? at(array, {h, p + 130, j}) : at(array, {p + 130, j});
    });
  }
}

TEST(ArrayTerms, BitsReadStridedViews) {
  const Tensor array = random_booleans({70, 50}, 4);
  TensorView transposed = array.view();
  transposed.shape = {50, 70};
  transposed.strides = {1, 50};
  expect_definition(bits(transposed), {.queries = 50, .keys = 70}, [&](Index, Index, Index p, Index j) {
    return at(array, {j, p - 20});
  });
}

TEST(ArrayTerms, EqualSlicesShareAGroup) {
  Tensor array = random_booleans({4, 20, 20}, 5);
  std::copy_n(array.as<std::uint8_t>(), 400, array.as<std::uint8_t>() + 800);
  const BoundMask mask(bits(array.view()), {.queries = 20, .keys = 20, .batch = 5, .heads = 4});
  EXPECT_EQ(mask.groups(), 3);
  EXPECT_EQ(mask.group_of(4, 0), mask.group_of(1, 2));
}

TEST(ArrayTerms, Blocks) {
  const Tensor shared = random_booleans({6, 6}, 6), own = random_booleans({3, 6, 6}, 7);
  const MaskExtent extent{.queries = 30, .keys = 40, .batch = 1, .heads = 3};
  expect_definition(blocks(7, shared.view()), extent, [&](Index, Index, Index p, Index j) {
    return at(shared, {p / 7, j / 7});
  });
  expect_definition(blocks(7, own.view()), extent, [&](Index, Index h, Index p, Index j) {
    return at(own, {h, p / 7, j / 7});
  });
}

// Positions before the first key are in no row of a table, in no document and in no tree.
TEST(ArrayTerms, HaveNothingBeforeTheFirstKey) {
  const MaskExtent extent{.queries = 90, .keys = 40};
  const Tensor table = random_booleans({6, 6}, 9);
  expect_definition(blocks(7, table.view()), extent, [&](Index, Index, Index p, Index j) {
    return p >= 0 && at(table, {p / 7, j / 7});
  });
  Tensor ids(DType::i32, {40});
  std::vector<Index> parents(40);
  for (Index i = 0; i < 40; ++i) {
    ids.as<std::int32_t>()[i] = static_cast<std::int32_t>(i / 11 % 3);
    parents[static_cast<std::size_t>(i)] = i - 1 - i % 3;
  }
  parents[1] = parents[2] = 0;
  expect_definition(document_ids(ids.view()), extent,
                    [&](Index, Index, Index p, Index j) { return p >= 0 && p / 11 % 3 == j / 11 % 3; });
  expect_definition(tree(parents), extent, [&](Index, Index, Index p, Index j) {
    while (p > j) p = parents[static_cast<std::size_t>(p)];
    return p == j;
  });
}

TEST(ArrayTerms, DocumentIds) {
  const Tensor shared = ids_of({9}, {3, 3, 1, 1, -1, 3, 3, -7, 1});
  const auto same = [](const std::int32_t* ids, Index p, Index j) { return ids[p] >= 0 && ids[p] == ids[j]; };
  expect_definition(document_ids(shared.view()), {.queries = 9, .keys = 9, .batch = 2, .heads = 2},
                    [&](Index, Index, Index p, Index j) { return same(shared.as<std::int32_t>(), p, j); });
  const Tensor own = ids_of({3, 5}, {0, 0, 1, 1, 2, 5, 5, 5, 5, 5, 0, 0, 1, 1, 2});
  const Mask mask = document_ids(own.view());
  expect_definition(mask, {.queries = 4, .keys = 5, .batch = 3, .heads = 2},
                    [&](Index b, Index, Index p, Index j) { return same(own.as<std::int32_t>() + b * 5, p, j); });
  EXPECT_EQ(BoundMask(mask, {.queries = 4, .keys = 5, .batch = 3, .heads = 2}).groups(), 2);
}

TEST(ArrayTerms, ManyDocuments) {
  // Many runs: the sparse table behind classify has several levels.
  Tensor ids(DType::i32, {3000});
  for (Index i = 0; i < 3000; ++i) ids.as<std::int32_t>()[i] = static_cast<std::int32_t>(i / 3 % 700);
  expect_consistent(document_ids(ids.view()), {.queries = 3000, .keys = 3000}, 8, 60);
}

TEST(ArrayTerms, Tree) {
  const std::vector<Index> parents = {-1, 0, 0, 1, 3, -1, 5, 2, 7, 4};
  const auto is_ancestor = [&](Index p, Index j) {
    for (Index i = p; i >= 0; i = parents[static_cast<std::size_t>(i)])
      if (i == j) return true;
    return false;
  };
  for (const Index queries : {1, 4, 10})
    expect_definition(tree(parents), {.queries = queries, .keys = 10},
                      [&](Index, Index, Index p, Index j) { return is_ancestor(p, j); });
}

TEST(ArrayTerms, DeepAndWideTrees) {
  std::vector<Index> chain(1500), star(1500, 0), comb(1500);
  for (Index i = 0; i < 1500; ++i) chain[static_cast<std::size_t>(i)] = i - 1;
  for (Index i = 0; i < 1500; ++i) comb[static_cast<std::size_t>(i)] = i - 1 - i % 2;
  star[0] = comb[0] = -1;
  for (const auto& parents : {chain, star, comb})
    expect_consistent(tree(parents), {.queries = 1500, .keys = 1500}, 9, 60);
}

TEST(ArrayTerms, Natten) {
  for (const auto& [height, width, kh, kw] :
       {std::array<Index, 4>{5, 7, 3, 3}, {4, 4, 1, 3}, {3, 9, 3, 5}, {6, 6, 5, 1}}) {
    const auto start = [](Index x, Index kernel, Index size) {
      return std::min(std::max<Index>(x - (kernel - 1) / 2, 0), size - kernel);
    };
    const Index h = height, w = width, rows = kh, columns = kw;
    std::vector<Index> seen(static_cast<std::size_t>(h * w));
    expect_definition(natten(h, w, rows, columns), {.queries = h * w, .keys = h * w},
                      [&](Index, Index, Index p, Index j) {
                        const Index y = start(p / w, rows, h), x = start(p % w, columns, w);
                        const bool near = j / w >= y && j / w < y + rows && j % w >= x && j % w < x + columns;
                        seen[static_cast<std::size_t>(p)] += near ? 1 : 0;
                        return near;
                      });
    for (const Index count : seen) EXPECT_EQ(count, rows * columns);
  }
}

}  // namespace
}  // namespace stof
