// SPDX-License-Identifier: Apache-2.0
#include "src/mask/bind.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "src/base/error.h"
#include "src/mask/bound.h"
#include "src/mask/traits.h"

namespace stof {
namespace {

constexpr std::int64_t kMostHeads = std::int64_t{1} << 24;  // of all items
// Bits that all distinct masks of one extent may keep, 8 GiB.
constexpr std::int64_t kMostBits = std::int64_t{1} << 36;

// Each may keep a bit for every query and key, and what its text lists.
std::int64_t most_groups(const Mask& mask, const MaskExtent& extent) {
  return kMostBits / (64 * static_cast<std::int64_t>(mask.node().canonical.size()) + extent.queries + extent.keys);
}

void check_extent(const MaskExtent& extent) {
  const auto check = [](std::string_view name, std::int64_t value, std::int64_t least, std::int64_t most) {
    if (value < least || value > most)
      fail(ErrorKind::invalid_argument, "mask: {} = {}; accepted: {} to {}", name, value, least, most);
  };
  check("queries", extent.queries, 0, kMaxExtent);
  check("keys", extent.keys, 0, kMaxExtent);
  check("batch", extent.batch, 1, std::int64_t{1} << 20);
  check("heads", extent.heads, 1, std::int64_t{1} << 20);
  if (extent.heads > kMostHeads / extent.batch)
    fail(ErrorKind::invalid_argument, "mask: batch = {} and heads = {}; accepted: at most {} together", extent.batch,
         extent.heads, kMostHeads);
}

// A row of any width, zero at first, in pieces that start at a word; keys outside `known` stay forbidden.
void fill_row(const bound::Node& node, std::int64_t p, Range keys, Range known, std::uint64_t* words) {
  for (std::int64_t begin = keys.begin; begin < keys.end; begin += bound::kTileWords * 64, words += bound::kTileWords) {
    const Range inside = intersect({begin, std::min(keys.end, begin + bound::kTileWords * 64)}, known);
    if (inside.empty()) continue;
    if (inside.begin == begin) {
      bound::fill(node, {.positions = {p, p + 1}, .keys = inside, .words = words});
      continue;
    }
    const RowBits row({begin, inside.end}, words);
    for (std::int64_t key = inside.begin; key < inside.end; ++key)
      if (bound::allows(node, p, key)) row.allow(key);
  }
}

}  // namespace

struct BoundMask::State {
  MaskExtent extent;
  std::vector<bound::Node> groups;
  std::vector<bound::Leaves> leaves;  // of each group
  // group_of[item * heads + head], where a mask that does not depend on the item has one row, on the head one column.
  std::int64_t items = 1, heads = 1;
  std::vector<int> group_of;

  const bound::Node& group(int index) const { return groups[static_cast<std::size_t>(index)]; }
  Range positions(Range rows) const { return {rows.begin + extent.offset(), rows.end + extent.offset()}; }
};

BoundMask BoundMask::once_for_like_items(const Mask& mask, const MaskExtent& extent) {
  MaskExtent once = extent;
  if (!depends_on_batch(mask)) once.batch = 1;
  return {mask, once, extent.batch};
}

BoundMask::BoundMask(const Mask& mask, const MaskExtent& extent) : BoundMask(mask, extent, extent.batch) {}

BoundMask::BoundMask(const Mask& mask, const MaskExtent& extent, std::int64_t batch)
    : state_(std::make_unique<State>()) {
  check_extent(extent);
  const MaskTraits traits = traits_of(mask);
  state_->extent = extent;
  state_->items = traits.batch ? extent.batch : 1;
  state_->heads = traits.head ? extent.heads : 1;
  const std::int64_t most = std::max<std::int64_t>(1, most_groups(mask, extent));
  MaskExtent to_fit = extent;
  to_fit.batch = batch;
  std::map<std::string, int> known;
  for (std::int64_t item = 0; item < state_->items; ++item)
    for (std::int64_t head = 0; head < state_->heads; ++head) {
      const bound::Place place{.extent = to_fit, .item = item, .head = head};
      std::string key;
      bound::append_key(mask, place, key);
      const auto [it, added] = known.emplace(std::move(key), static_cast<int>(state_->groups.size()));
      if (added && std::ssize(known) > most)
        fail(ErrorKind::unsupported, "mask: more than {} distinct masks of {} queries and {} keys", most,
             extent.queries, extent.keys);
      if (added) {
        state_->groups.push_back(bound::bind(mask, place));
        state_->leaves.push_back(bound::number_leaves(state_->groups.back()));
      }
      state_->group_of.push_back(it->second);
    }
}

BoundMask::~BoundMask() = default;
BoundMask::BoundMask(BoundMask&&) noexcept = default;
BoundMask& BoundMask::operator=(BoundMask&&) noexcept = default;

const MaskExtent& BoundMask::extent() const { return state_->extent; }

int BoundMask::groups() const { return static_cast<int>(state_->groups.size()); }

int BoundMask::group_of(std::int64_t item, std::int64_t head) const {
  const std::int64_t row = state_->items == 1 ? 0 : item, column = state_->heads == 1 ? 0 : head;
  return state_->group_of[static_cast<std::size_t>(row * state_->heads + column)];
}

void BoundMask::outline(int group, Range rows, std::int64_t cell_keys, Outline& out) const {
  const CellGrid grid{state_->positions(rows), cell_keys, state_->extent.keys};
  out.clear();
  bound::outline(state_->group(group), grid, grid.all(), out);
}

std::optional<DiagonalName> BoundMask::name_along_diagonal(int group, Range rows, Range keys) const {
  const bound::Leaves& leaves = state_->leaves[static_cast<std::size_t>(group)];
  const bool numbered = leaves.count <= bound::kMostNumbered, plain = leaves.only_difference();
  std::optional<DiagonalName> name = {};
  if (numbered && (!plain || leaves.key_periods > 0))
    name = bound::deciding_leaves(state_->group(group), state_->positions(rows), keys);
  return !name && plain ? DiagonalName{} : name;
}

std::optional<NamedBand> BoundMask::named_band(int group, Range rows) const {
  return bound::named_band(state_->leaves[static_cast<std::size_t>(group)], state_->positions(rows));
}

bool BoundMask::stores_cells(int group) const {
  return std::holds_alternative<bound::DenseBits>(state_->group(group).term);
}

StoredCell BoundMask::stored_cell(int group, std::int64_t row, std::int64_t key) const {
  const auto* const array = std::get_if<bound::DenseBits>(&state_->group(group).term);
  return array == nullptr ? StoredCell{} : array->stored_cell(row + state_->extent.offset(), key);
}

bool BoundMask::allows(int group, std::int64_t row, std::int64_t key) const {
  if (key < 0 || key >= state_->extent.keys) return false;
  return bound::allows(state_->group(group), row + state_->extent.offset(), key);
}

BlockKind BoundMask::classify(int group, Range rows, Range keys) const {
  const Range inside = intersect(keys, {0, state_->extent.keys});
  if (rows.empty() || inside.empty()) return BlockKind::empty;
  const BlockKind kind = bound::classify(state_->group(group), state_->positions(rows), inside);
  return inside == keys ? kind : std::min(kind, BlockKind::partial);
}

void BoundMask::row_bits(int group, std::int64_t row, Range keys, std::span<std::uint64_t> words) const {
  tile_bits(group, {row, row + 1}, keys, words);
}

void BoundMask::tile_bits(int group, Range rows, Range keys, std::span<std::uint64_t> words) const {
  if (rows.empty() || keys.empty()) return;
  const std::int64_t stride = words_for(keys.size());
  STOF_CHECK(static_cast<std::int64_t>(words.size()) >= rows.size() * stride);
  const bound::Node& node = state_->group(group);
  const Range positions = state_->positions(rows);
  if (keys.begin >= 0 && keys.end <= state_->extent.keys && stride <= bound::kTileWords) {
    const std::int64_t step = bound::kTileWords / stride;
    for (std::int64_t p = positions.begin; p < positions.end; p += step)
      bound::fill(node, {.positions = {p, std::min(p + step, positions.end)},
                         .keys = keys,
                         .words = words.data() + (p - positions.begin) * stride});
    return;
  }
  std::fill_n(words.data(), rows.size() * stride, 0);
  for (std::int64_t p = positions.begin; p < positions.end; ++p)
    fill_row(node, p, keys, {0, state_->extent.keys}, words.data() + (p - positions.begin) * stride);
}

bool depends_on_length(const Mask& mask) { return traits_of(mask).length; }
bool depends_on_batch(const Mask& mask) { return traits_of(mask).batch; }

}  // namespace stof
