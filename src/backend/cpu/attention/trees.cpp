// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cpu/attention/trees.h"

#include <algorithm>

#include "src/base/narrow.h"

namespace stof::cpu {

bool has_tree(const AttentionCall& call, const AttentionItem& item) {
  return item.queries > 0 && item.queries <= call.trees.queries;
}

RowTree tree_of(const AttentionCall& call, const AttentionItem& item) {
  if (!has_tree(call, item)) return {};
  return {.words = reinterpret_cast<const std::uint32_t*>(call.trees.words + item.place * call.trees.item_stride),
          .row_stride = call.trees.row_stride,
          .begin = static_cast<int>(item.keys - item.queries)};
}

void TreeMasks::cut(std::span<Piece> pieces, std::size_t first) {
  const std::size_t count = pieces.size() - first;
  const Piece& begin = pieces[first];
  const int* const group = blocks_.group_of.data() + begin.item->index * blocks_.heads + begin.head;
  const bool shared = begin.head > 0 && group[0] == group[-1];
  for (Piece& piece : pieces.subspan(first)) {
    if (!shared) {
      cut(piece);
      continue;
    }
    const Piece& alike = *(&piece - count);
    piece.end = alike.end;
    piece.tree_begin = alike.tree_begin, piece.tree_end = alike.tree_end;
  }
}

void TreeMasks::cut(Piece& piece) {
  const std::int64_t tree = piece.item->keys - piece.item->queries;
  const auto first = blocks_.visits.begin() + piece.begin, last = blocks_.visits.begin() + piece.end;
  const auto among = std::partition_point(
      first, last, [&](const BlockVisit& visit) { return visit.key_start + blocks_.tiles.block_kv <= tree; });
  piece.end = piece.begin + (among - first);
  piece.tree_begin = std::ssize(visits_);
  for (auto visit = among; visit != last && visit->key_start < piece.item->keys; ++visit) add_mask(*visit, piece);
  piece.tree_end = std::ssize(visits_);
}

void TreeMasks::add_mask(const BlockVisit& visit, const Piece& piece) {
  const BlockTiles& tiles = blocks_.tiles;
  const auto number = narrow<std::int32_t>(std::ssize(visits_), "masks of draft trees");
  const int row_bytes = tiles.mask_row_bytes();
  const std::int64_t bytes = std::int64_t{tiles.block_kv} * row_bytes;
  const std::size_t at = masks_.size();
  visits_.push_back({.key_start = visit.key_start, .mask = number});
  if (visit.mask < 0) masks_.resize(at + static_cast<std::size_t>(bytes), 0xFF);
  else masks_.insert(masks_.end(), tiles.masks + visit.mask * bytes, tiles.masks + (visit.mask + 1) * bytes);
  const RowTree tree = tree_of(call_, *piece.item);
  const std::int64_t end = std::min<std::int64_t>(visit.key_start + tiles.block_kv, piece.item->keys);
  for (std::int64_t row = 0; row < piece.rows; ++row) {
    const std::uint32_t* const words = tree.words + (piece.row + row) * tree.row_stride;
    const std::int64_t lane = piece.lane + row;
    std::uint8_t* const mask = masks_.data() + at + lane / 8;
    for (std::int64_t key = std::max(visit.key_start, tree.begin); key < end; ++key) {
      const auto bit = static_cast<std::uint64_t>(key - tree.begin);
      if (((words[bit / 32] >> (bit % 32)) & 1u) == 0)
        mask[(key - visit.key_start) * row_bytes] &= static_cast<std::uint8_t>(~(1u << (lane % 8)));
    }
  }
}

}  // namespace stof::cpu
