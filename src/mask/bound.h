// SPDX-License-Identifier: Apache-2.0
// A mask resolved for one head and item of a fixed extent: selections are taken, tables are drawn, arrays are indexed.
#pragma once
#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "src/mask/band_name.h"
#include "src/mask/diagonal_name.h"
#include "src/mask/expression.h"
#include "src/mask/outline.h"
#include "src/mask/row_bits.h"

namespace stof::bound {

struct Node;

struct And {
  std::vector<Node> nodes;
};
struct Or {
  std::vector<Node> nodes;
};
struct Not {
  std::unique_ptr<Node> node;
};

using Term =
    std::variant<term::All, term::None, term::Causal, term::Window, term::Comb, term::Global, term::Sink, term::Prefix,
                 SameDocument, term::Segments, BlockRows, Ancestors, DenseBits, term::Natten, Where, And, Or, Not>;

struct Node {
  Term term;
  int leaf = -1;  // its number among the leaves of the tree, once number_leaves has been through
};

// Leaves with keys(p) allow one interval per row; the others answer for themselves.
template <class Leaf>
concept OneInterval = requires(const Leaf& leaf) {
  { leaf.keys(std::int64_t{}) } -> std::same_as<Range>;
};

// The questions, for keys inside [0, keys) and positions inside the extent; ranges are not empty.
bool allows(const Node& node, std::int64_t p, std::int64_t key);
BlockKind classify(const Node& node, Range positions, Range keys);
// At most kTileWords words; overwrites them.
void fill(const Node& node, const TileBits& tile);
inline constexpr std::int64_t kTileWords = 512;

// Appends the runs of `cells`, of which there are some; as sure of each cell as classify is.
void outline(const Node& node, const CellGrid& grid, Range cells, Outline& out);

struct Leaves {
  int count = 0;
  int differences = 0;  // that look at position - key alone
  int grids = 0;
  std::optional<term::Natten> grid = {};  // one of them
  int periodic = 0;                       // where() of which position - key and a period are enough
  Period period = {};                     // of all of them
  int repeating = 0;                      // where() of which rows repeat
  Period rows = {};                       // of all of them
  int key_periods = 0;                    // leaves of which keys repeat
  bool only_difference() const { return differences == count; }
};
// Numbers them in the order of the tree.
Leaves number_leaves(Node& node);
// Where the rows of all leaves repeat, or all look at position - key alone, but for one natten() or where() with
// periods.
std::optional<NamedBand> named_band(const Leaves& leaves, Range positions);
inline constexpr int kMostNumbered = 64;
// Of numbered leaves, those that decide a partial rectangle, when all of them look at position - key alone, but for one
// that looks at a place in a grid or in a period, too. Where a period of keys is known of all these, the name says so.
std::optional<DiagonalName> deciding_leaves(const Node& node, Range positions, Range keys);

// Where a mask is evaluated.
struct Place {
  MaskExtent extent;
  std::int64_t item = 0, head = 0;
};

// Throws invalid_argument when an array, selection or grid does not fit the extent.
Node bind(const Mask& mask, const Place& place);
// Appends what the bound mask is made from; equal keys, equal bound masks.
void append_key(const Mask& mask, const Place& place, std::string& key);

}  // namespace stof::bound
