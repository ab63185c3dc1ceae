// SPDX-License-Identifier: Apache-2.0
#include "tests/mask/every_term.h"

#include <fmt/format.h>

#include <random>

#include "src/tensor/npy.h"

namespace stof {
namespace {

using Index = std::int64_t;

Index modulo(Index a, Index b) { return ((a % b) + b) % b; }
Index quotient(Index a, Index b) { return (a - modulo(a, b)) / b; }

// The finaliser of splitmix64 over its counter: of seed 0 and row 0, the published sequence.
std::uint64_t key_of(Index row, Index column, std::uint64_t seed) {
  std::uint64_t x =
      seed + 0x9E3779B97F4A7C15ull * ((static_cast<std::uint64_t>(row) << 32) + 1 + static_cast<std::uint64_t>(column));
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

struct Draw {
  Index columns, count;
  std::uint64_t seed;
  bool operator()(Index row, Index column) const {
    Index smaller = 0;
    for (Index other = 0; other < columns; ++other)
      smaller += std::pair(key_of(row, other, seed), other) < std::pair(key_of(row, column, seed), column) ? 1 : 0;
    return smaller < count;
  }
};

class Table {
 public:
  Table(const MaskExtent& extent, const std::filesystem::path& folder) : extent_(extent), folder_(folder) {}

  template <class Allows>
  void add(std::string text, Allows allows) {
    terms_.push_back({.text = std::move(text), .allows = std::move(allows)});
  }
  // Of p and j alone.
  template <class Allows>
  void add_pairs(std::string text, Allows allows) {
    add(std::move(text), [allows](Index, Index, Index p, Index j) { return static_cast<bool>(allows(p, j)); });
  }

  void add_bands();
  void add_tokens();
  void add_segments();
  void add_random();
  void add_arrays();
  void add_bits(const Shape& shape, int seed);
  void add_tree();
  void add_grid();
  void add_where();
  void add_selections();
  void add_operators();
  std::vector<DefinedTerm> take() { return std::move(terms_); }

 private:
  std::shared_ptr<Tensor> save(const std::string& name, DType dtype, const Shape& shape,
                               const std::function<int(Index)>& value) const {
    auto tensor = std::make_shared<Tensor>(dtype, shape);
    for (Index i = 0; i < tensor->size(); ++i)
      if (dtype == DType::boolean) tensor->as<std::uint8_t>()[i] = value(i) != 0 ? 1 : 0;
      else tensor->as<std::int32_t>()[i] = value(i);
    write_npy(folder_ / name, tensor->view());
    return tensor;
  }

  MaskExtent extent_;
  std::filesystem::path folder_;
  std::vector<DefinedTerm> terms_;
};

void Table::add_bands() {
  add_pairs("all", [](Index, Index) { return true; });
  add_pairs("none", [](Index, Index) { return false; });
  add_pairs("causal", [](Index p, Index j) { return j <= p; });
  add_pairs("window(0)", [](Index p, Index j) { return j == p; });
  add_pairs("window(6)", [](Index p, Index j) { return -6 <= j - p && j - p <= 6; });
  add_pairs("window(70,3)", [](Index p, Index j) { return -70 <= j - p && j - p <= 3; });
  add_pairs("dilated(4,3)", [](Index p, Index j) { return std::abs(p - j) <= 12 && std::abs(p - j) % 3 == 0; });
  add_pairs("strided(5)", [](Index p, Index j) { return std::abs(p - j) % 5 == 0; });
  add_pairs("longformer(4,3)", [](Index p, Index j) { return std::abs(p - j) <= 4 || (p >= 0 && p < 3) || j < 3; });
}

void Table::add_tokens() {
  const Index last = extent_.keys - 1;
  add_pairs("global(5)", [](Index p, Index j) { return (0 <= p && p < 5) || j < 5; });
  add_pairs(fmt::format("global([7,0,{}])", last),
            [last](Index p, Index j) { return p == 0 || p == 7 || p == last || j == 0 || j == 7 || j == last; });
  add_pairs("sink(4)", [](Index, Index j) { return j < 4; });
  add_pairs("prefix(9)", [](Index p, Index j) { return j < 9 || j <= p; });
  // Positions before the first key are in no document, so also not in one another's.
  add_pairs("documents([0,1,12])", [](Index p, Index j) {
    const auto document = [](Index x) { return x < 1 ? 0 : x < 12 ? 1 : 2; };
    return p >= 0 && document(p) == document(j);
  });
}

void Table::add_segments() {
  struct Rectangle {
    Index q0, q1, k0, k1;
    bool causal;
  };
  const Index keys = extent_.keys;
  // Overlapping, wider than high and higher than wide, one without a key for its first rows, one empty.
  const std::vector<Rectangle> rectangles = {{0, keys, 0, 2, false},
                                             {3, 15, 4, 9, true},
                                             {2, 8, 1, keys, true},
                                             {keys / 2, keys, keys / 3, keys, true},
                                             {5, 5, 0, keys, false}};
  std::string list;
  for (const auto& [q0, q1, k0, k1, is_causal] : rectangles)
    list +=
        fmt::format("{}[{},{},{},{},\"{}\"]", list.empty() ? "" : ",", q0, q1, k0, k1, is_causal ? "causal" : "full");
  add_pairs("segments([" + list + "])", [rectangles](Index p, Index j) {
    return std::any_of(rectangles.begin(), rectangles.end(), [&](const Rectangle& r) {
      const bool inside = r.q0 <= p && p < r.q1 && r.k0 <= j && j < r.k1;
      return inside && (!r.causal || j - r.k1 <= p - r.q1);
    });
  });
}

void Table::add_random() {
  for (const auto& [size, count] : {std::pair<Index, Index>{4, 2}, {7, 0}, {5, 1000}}) {
    const Draw drawn{.columns = quotient(extent_.keys + size - 1, size), .count = count, .seed = 77};
    add_pairs(fmt::format("random_blocks({},{},77)", size, count),
              [drawn, size = size](Index p, Index j) { return drawn(quotient(p, size), quotient(j, size)); });
  }
  for (const Index globals : {0, 1, 4}) {
    const Index blocks = quotient(extent_.keys + 3, 4), first = (globals + 1) / 2, final = globals / 2;
    const Draw drawn{.columns = blocks, .count = 1, .seed = 9};
    const auto global = [=](Index x) { return (0 <= x && x < first) || (x < blocks && x >= blocks - final); };
    add_pairs(fmt::format("bigbird(4,3,{},1,9)", globals), [=](Index p, Index j) {
      const Index r = quotient(p, 4), c = quotient(j, 4);
      return std::abs(r - c) <= 1 || global(r) || global(c) || drawn(r, c);
    });
  }
}

void Table::add_bits(const Shape& shape, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  int value = 0;  // in runs, so that there are full and empty rectangles
  const auto tensor = save(fmt::format("bits{}.npy", seed), DType::boolean, shape,
                           [&](Index) { return value ^= random() % 20 == 0 ? 1 : 0; });
  add(fmt::format("bits(bits{}.npy)", seed), [=, extent = extent_](Index b, Index h, Index p, Index j) {
    const std::array<Index, 4> index = {b, h, p - (extent.keys - extent.queries), j};
    Index offset = 0;
    for (std::size_t d = 0; d < shape.size(); ++d)
      offset = offset * shape[d] + (shape[d] == 1 ? 0 : index[4 - shape.size() + d]);
    return tensor->as<std::uint8_t>()[offset] != 0;
  });
}

void Table::add_arrays() {
  const auto& [n, m, b, h] = extent_;
  const Shape shapes[] = {{n, m}, {1, m}, {n, 1}, {h, n, m}, {1, n, m}, {b, h, n, m}, {b, 1, n, m}, {1, h, 1, m}};
  int seed = 0;
  for (const Shape& shape : shapes) add_bits(shape, seed++);

  const auto id = [](Index i) { return static_cast<int>(i / 3 % 5) - 1 - (i % 50 == 0 ? 3 : 0); };
  const auto shared = save("ids.npy", DType::i32, {m}, id), own = save("own.npy", DType::i32, {b, m}, id);
  const auto same = [](const std::int32_t* ids, Index p, Index j) { return p >= 0 && ids[p] >= 0 && ids[p] == ids[j]; };
  add_pairs("document_ids(ids.npy)", [=](Index p, Index j) { return same(shared->as<std::int32_t>(), p, j); });
  add("document_ids(own.npy)",
      [=, keys = m](Index item, Index, Index p, Index j) { return same(own->as<std::int32_t>() + item * keys, p, j); });

  const Index blocks = (m + 5) / 6;
  const auto chosen = [](Index i) { return static_cast<int>(i * i / 3 % 3); };
  const auto table = save("table.npy", DType::boolean, {blocks, blocks}, chosen);
  const auto tables = save("tables.npy", DType::boolean, {h, blocks, blocks}, chosen);
  add_pairs("blocks(6,table.npy)",
            [=](Index p, Index j) { return p >= 0 && table->as<std::uint8_t>()[p / 6 * blocks + j / 6] != 0; });
  add("blocks(6,tables.npy)", [=](Index, Index head, Index p, Index j) {
    return p >= 0 && tables->as<std::uint8_t>()[(head * blocks + p / 6) * blocks + j / 6] != 0;
  });
}

void Table::add_tree() {
  std::vector<Index> parents;  // a chain, then branches, with a second root
  for (Index i = 0; i < extent_.keys; ++i) parents.push_back(i == 11 ? -1 : i < 8 ? i - 1 : i - 1 - i * i % 5);
  add_pairs(fmt::format("tree([{}])", fmt::join(parents, ",")), [parents](Index p, Index j) {
    while (p > j) p = parents[static_cast<std::size_t>(p)];
    return p == j;
  });
}

void Table::add_grid() {
  Index height = 1;  // the divisor of keys nearest below its root
  for (Index d = 1; d * d <= extent_.keys; ++d) height = extent_.keys % d == 0 ? d : height;
  const Index width = extent_.keys / height;
  for (const auto& [rows, columns] : {std::pair<Index, Index>{3, 5}, {1, 1}, {1, 3}}) {
    // The window of `size` nearest to x that lies inside.
    const auto holds = [](Index x, Index y, Index size, Index limit) {
      const Index begin = std::clamp<Index>(x - size / 2, 0, limit - size);
      return begin <= y && y < begin + size;
    };
    add_pairs(fmt::format("natten({},{},{},{})", height, width, rows, columns),
              [=, r = rows, c = columns](Index p, Index j) {
                return holds(p / width, j / width, r, height) && holds(p % width, j % width, c, width);
              });
  }
}

void Table::add_where() {
  add_pairs("where((q - k) / 7 == -2 | (q - k) % 7 == 6)",
            [](Index p, Index j) { return quotient(p - j, 7) == -2 || modulo(p - j, 7) == 6; });
  add_pairs("where(q / -4 + k % 3 * 2 < -2)", [](Index p, Index j) { return quotient(-p, 4) + modulo(j, 3) * 2 < -2; });
  add_pairs("where(1 | q == k & 0)", [](Index, Index) { return true; });
  add_pairs("where(q - k - 3 > -q + 2 * k)", [](Index p, Index j) { return p - j - 3 > -p + 2 * j; });
  add_pairs("where(!(q < k) == (k > 4))", [](Index p, Index j) { return (p >= j) == (j > 4); });
  add_pairs("where(abs(q - k) <= max(3, min(q, k) / 4) & q >= 2)", [](Index p, Index j) {
    return std::abs(p - j) <= std::max<Index>(3, quotient(std::min(p, j), 4)) && p >= 2;
  });
  add("where(b * 3 + h <= q - k)", [](Index b, Index h, Index p, Index j) { return b * 3 + h <= p - j; });
}

void Table::add_selections() {
  add("heads(0-1: causal, 2: sink(4))", [](Index, Index h, Index p, Index j) { return h < 2 ? j <= p : j < 4; });
  add("heads(2: none, *: window(5))", [](Index, Index h, Index p, Index j) { return h != 2 && std::abs(p - j) <= 5; });
  add("batch(0: all, 1: strided(2))", [](Index b, Index, Index p, Index j) { return b == 0 || modulo(p - j, 2) == 0; });
  add("batch(1: heads(1: causal, *: none), *: prefix(3))",
      [](Index b, Index h, Index p, Index j) { return b == 1 ? h == 1 && j <= p : j < 3 || j <= p; });
}

void Table::add_operators() {
  add_pairs("causal & !window(3)", [](Index p, Index j) { return j <= p && j < p - 3; });
  add_pairs("!(causal | global(2)) | sink(1) & !strided(3)", [](Index p, Index j) {
    const bool global = (0 <= p && p < 2) || j < 2;
    return (j > p && !global) || (j < 1 && modulo(p - j, 3) != 0);
  });
}

}  // namespace

std::vector<DefinedTerm> every_term(const MaskExtent& extent, const std::filesystem::path& folder) {
  Table table(extent, folder);
  table.add_bands();
  table.add_tokens();
  table.add_segments();
  table.add_random();
  table.add_where();
  table.add_selections();
  table.add_operators();
  table.add_arrays();
  table.add_tree();
  if (extent.queries == extent.keys) table.add_grid();
  return table.take();
}

}  // namespace stof
