// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cpu/attention/blocks.h"

#include <fmt/format.h>

#include <utility>

#include "kernels/cpu/block_attention.h"
#include "src/backend/cpu/attention/cost.h"
#include "src/backend/cpu/attention/trees.h"
#include "src/backend/cpu/attention/work_list.h"
#include "src/backend/cpu/layout.h"
#include "src/base/error.h"

namespace stof::cpu {
namespace {

// Nanoseconds by number of entries; which of them are partial only the kernel will see.
struct PieceCost {
  double fixed, entry;
};

PieceCost piece_cost(const BlockTiles& tiles, const AttentionCall& call) {
  const BlockSize size{tiles.block_q, tiles.block_kv};
  const double fixed = block_ns(block_work(size, 0, 0, 1, call.head_dim), call.dtype);
  return {.fixed = fixed, .entry = block_ns(block_work(size, 1, 0, 1, call.head_dim), call.dtype) - fixed};
}

// The row-blocks of one item and head. An item without keys has no position in the layout: its rows see nothing.
void add_pieces(const ArrangedBlocks& blocks, const AttentionItem& item, std::int64_t head, const PieceCost& cost,
                std::pmr::vector<Piece>& pieces) {
  const std::int64_t block_q = blocks.tiles.block_q;
  const std::int64_t shift = item.keys == 0 ? 0 : item.keys - item.queries - blocks.first_position;
  const std::int64_t group = blocks.group_of[static_cast<std::size_t>(item.index * blocks.heads + head)];
  const auto row_begin = blocks.row_begin.begin() + group * (blocks.row_blocks + 1);
  for (std::int64_t row = 0; row < item.queries;) {
    const std::int64_t block = (row + shift) / block_q, lane = (row + shift) % block_q;
    Piece piece{.item = &item, .head = head, .row = row, .lane = static_cast<int>(lane)};
    piece.rows = std::min(block_q - lane, item.queries - row);
    if (item.keys > 0) {
      piece.begin = row_begin[block];
      piece.end = row_begin[block + 1];
    }
    piece.cost_ns = cost.fixed + cost.entry * static_cast<double>(piece.end - piece.begin);
    pieces.push_back(piece);
    row += piece.rows;
  }
}

}  // namespace

Refusal blocks_refuse(const AttentionProblem&, const DeviceCaps&) { return std::nullopt; }

std::vector<AttentionPlan> block_candidates(const AttentionProblem& problem, const DeviceCaps& caps) {
  std::vector<AttentionPlan> plans;
  for (const BlockStats& stats : problem.stats.blocks) {
    AttentionPlan plan;
    plan.kernel = kBlockAttention;
    plan.format = {.block_q = stats.block_q, .block_kv = stats.block_kv, .key_step = stats.block_kv};
    plan.predicted_us = predict_blocks(problem, stats, caps);
    const double density = problem.stats.density;
    plan.reason =
        fmt::format("{}x{} blocks touch {:.1f} % of the pairs for {:.1f} % allowed", stats.block_q, stats.block_kv,
                    stats.touched_density > 0 ? 100 * density / stats.touched_density : 0, 100 * density);
    plans.push_back(std::move(plan));
  }
  return plans;
}

ArrangedMask arrange_blocks(const AttentionPlan& plan, PackedMask mask, const Device&) {
  const std::size_t scratch = block_attention_scratch({.head_dim = kMaxHeadDim}, tiles_of(plan.format));
  return std::make_shared<const ArrangedBlocks>(std::move(mask.blocks), scratch);
}

void run_blocks(const AttentionPlan&, const ArrangedMask& mask, const AttentionCall& call, const Device& device) {
  const auto& blocks = *static_cast<const ArrangedBlocks*>(mask.get());
  const PieceCost cost = piece_cost(blocks.tiles, call);
  std::pmr::vector<Piece> pieces(call.memory);
  TreeMasks trees(blocks, call);
  for (const AttentionItem& item : call.items)
    for (std::int64_t head = 0; head < call.heads; ++head) {
      const std::size_t first = pieces.size();
      add_pieces(blocks, item, head, cost, pieces);
      if (has_tree(call, item)) trees.cut(pieces, first);
    }
  const AttentionNumbers numbers = numbers_of(call, device.caps);
  const auto task_of = [&](const Piece& piece) {
    return BlockTask{.head = head_of(call, piece),
                     .visits = blocks.visits.data() + piece.begin,
                     .visit_count = piece.end - piece.begin,
                     .tree_visits = trees.visits() + piece.tree_begin,
                     .tree_visit_count = piece.tree_end - piece.tree_begin,
                     .tree_masks = trees.masks(),
                     .row = piece.row,
                     .rows = static_cast<int>(piece.rows),
                     .lane = piece.lane};
  };
  spread(pieces, {device.caps.cores, kPartRows}, blocks.scratch,
         [&](const Piece& piece, const Piece* following, void* scratch) {
           BlockTask next, task = task_of(piece);
           if (following != nullptr) {
             next = task_of(*following);
             task.following = &next;
           }
           block_attention(numbers, blocks.tiles, task, scratch);
         });
}

}  // namespace stof::cpu
