// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/cost.h"

#include <algorithm>
#include <cmath>

#include "kernels/shared/decode_layout.h"
#include "src/backend/cuda/attention/cost_terms.h"
#include "src/backend/cuda/attention/listed_mask.h"
#include "src/backend/cuda/attention/schedule.h"
#include "src/backend/cuda/attention/sections.h"

namespace stof::cuda {
namespace {

// Multiply-adds of a multiprocessor in the row-wise kernel: the 16 of its plans that were measured
// (bench/results/h200-attention-cost.json, h200-attention-regret.json) take 0.4 to 2 times what is predicted.
constexpr double kRowPairsPerUs = 2e3;
constexpr double kLaunchUs = 2.0;
constexpr double kUnevenLists = 0.25, kUnevenBands = 0.6;  // of_classes

// Of a multiprocessor that caps the scores of a 64 x 64 tile, where nothing hides it: for each of a thread's 32 scores
// two special functions, 8 cycles of a warp each, and three instructions, at the clock of attention-log.md's counts.
constexpr double kCapUs = 32 * (2 * 8 + 3) / 1.98e3;

// Of one that adds a bias to them, of bench/results/h200-biased-plans.json, where a step is one tile: matmuls of two
// are long enough for what is loaded meanwhile.
constexpr double kBiasUs = 0.045;

// Row blocks of a problem, or their parts, as pieces that teams take.
struct Piece {
  double full, partial;  // steps
  double count;          // over the whole problem
  double parts;          // of its row block
};

double parts_of(double steps, int most_steps) {
  return most_steps > 0 ? std::max(1.0, std::ceil(steps / most_steps)) : 1;
}

// Over the whole problem, of as many items as one measured row block stands for.
double part_count(const BlockStats::Bin& bin, double items, double parts) {
  return static_cast<double>(bin.count) * items * parts;
}

// Costliest first: a row block's steps decide.
std::vector<Piece> pieces_of(const AttentionProblem& problem, const ListedTiles& listed, int tiles, int most_steps) {
  std::vector<Piece> pieces;
  pieces.reserve(listed.row_blocks.size());
  const double items = items_per_measured(problem);
  for (auto bin = listed.row_blocks.rbegin(); bin != listed.row_blocks.rend(); ++bin) {
    const double touched = bin->full + bin->partial, steps = std::ceil(touched / tiles);
    const double parts = parts_of(steps, most_steps);
    const double count = part_count(*bin, items, parts) / listed.stacked_heads;
    const double full = touched > 0 ? bin->full / touched : 0;
    pieces.push_back({steps / parts * full, steps / parts * (1 - full), count, parts});
  }
  return pieces;
}

const BlockStats* stats_of_rows(const AttentionProblem& problem, int block_q) {
  for (const BlockStats& stats : problem.stats.blocks)
    if (stats.block_q == block_q && stats.block_kv == 64) return &stats;
  return nullptr;
}

ListedTiles tiles_of(const AttentionProblem& problem, const BlockStats& stats, int key_step) {
  const CutTiles* const cut = key_step == KeyTiles::kStep ? problem.key_tiles.of(stats.block_q) : nullptr;
  return cut != nullptr ? ListedTiles{key_step, cut->heaviest, cut->row_blocks}
                        : ListedTiles{key_step, stats.heaviest, stats.row_blocks};
}

struct Cost {
  const ListCosts& costs;
  double change_us;  // of a step
  double used;       // of a partial step's parts
  double scale;      // of steps
  double operator()(const Piece& piece) const {
    const double full = costs[ListTerm::full] + change_us,
                 partial = (costs[ListTerm::partial] + change_us) * (1 - costs[ListTerm::unused] * (1 - used));
    return costs[ListTerm::item] + (piece.parts > 1 ? costs[ListTerm::part] : 0) +
           (piece.full * full + piece.partial * partial) * scale;
  }
};

std::vector<SamePieces> priced(std::span<const Piece> pieces, const Cost& cost, double share) {
  std::vector<SamePieces> same;
  same.reserve(pieces.size());
  for (const Piece& piece : pieces) same.push_back({cost(piece), piece.count * share});
  const auto costlier = [](const SamePieces& a, const SamePieces& b) { return a.cost > b.cost; };
  const auto not_costlier = [](const SamePieces& a, const SamePieces& b) { return a.cost <= b.cost; };
  // As they mostly come: more steps cost more.
  const bool in_order = std::adjacent_find(same.begin(), same.end(), not_costlier) == same.end();
  if (!in_order) std::sort(same.begin(), same.end(), costlier);
  return same;
}

// Lists that `teams` walk. shared: several teams have a multiprocessor. dealt: up to kRoundsDealt rounds come in turns.
struct Walk {
  const ListCosts& costs;
  int tiles;
  double teams;
  Crew crew;
  bool shared, dealt;
  double used = 1;       // of a partial step's parts
  double change_us = 0;  // of a step, while all teams work: they share what caps scores and adds to them
  int stacked_heads = 1;
  int parts = 1;     // of a row block
  double again = 1;  // how often the tensors come from memory
  double apart = 1;  // times what work takes
  ListsOf lists = ListsOf::all_heads;
};

// Steps of `parts` times `tiles` 64 x 64 tiles of each of so many teams on a multiprocessor.
double change_us(const AttentionProblem& problem, int parts, int tiles, double teams) {
  const double cap = problem.shape.capped ? kCapUs * tiles : 0, bias = problem.shape.biased && tiles == 1 ? kBiasUs : 0;
  return (cap + bias) * parts * teams;
}

double tiles_in(const ListedTiles& listed) {
  double tiles = 0;
  for (const BlockStats::Bin& bin : listed.row_blocks)
    tiles += static_cast<double>(bin.count) * (bin.full + bin.partial);
  return tiles;
}

// Of the 64-row parts of `listed` tiles that are not full, the share that has an allowed pair, when row blocks of one
// part have tiles of their own, `single`.
double used_parts(const ListedTiles& listed, const ListedTiles& single, int parts) {
  double full = 0, partial = 0;
  for (const BlockStats::Bin& bin : listed.row_blocks)
    full += static_cast<double>(bin.count) * bin.full, partial += static_cast<double>(bin.count) * bin.partial;
  return partial > 0 ? std::clamp((tiles_in(single) / parts - full) / partial, 1.0 / parts, 1.0) : 1;
}

// Until the last team is done. `all`: the pieces, priced while all teams work.
double busiest(std::span<const Piece> pieces, const std::vector<SamePieces>& all, const Walk& walk) {
  const ListCosts& costs = walk.costs;
  double count = 0, total = 0;
  for (const SamePieces& same : all) count += same.count, total += same.cost * same.count;
  if (walk.dealt && walk.shared && count <= walk.teams)
    return makespan_of_one_round(all, walk.crew, costs[ListTerm::alone]);
  const auto longest = [&](double scale) {
    const std::vector<SamePieces> of = priced(pieces, {costs, walk.change_us, walk.used, scale}, 1);
    const double queued = makespan(of, walk.teams);
    const bool dealt = walk.dealt && count > walk.teams && count <= kRoundsDealt * walk.teams;
    return dealt ? std::max(queued, makespan_dealt(of, walk.teams)) : queued;
  };
  if (!walk.shared) return longest(load_factor(costs[ListTerm::alone], count, walk.teams));
  // Teams of a multiprocessor share it, and who is left alone is faster: between what all of them do together and the
  // longest schedule of one.
  return std::cbrt(std::pow(total / walk.teams, 3) + std::pow(longest(costs[ListTerm::alone]), 3));
}

// Launches are taken to be like each other, and none to begin before the one in front ends.
double predict_walk(const AttentionProblem& problem, std::span<const Piece> of_all, const Walk& walk) {
  const auto in_turn = static_cast<double>(launches(problem, walk.lists));
  std::vector<Piece> pieces(of_all.begin(), of_all.end());
  for (Piece& piece : pieces) piece.count /= in_turn;
  double count = 0, steps = 0, multiplied = 0, most = 0, most_parts = 1;
  for (const Piece& piece : pieces) {
    count += piece.count;
    steps += piece.count * (piece.full + piece.partial);
    multiplied += piece.count * (piece.full + walk.used * piece.partial);
    most = std::max(most, piece.full + piece.partial);
    most_parts = std::max(most_parts, piece.parts);
  }
  const ListCosts& costs = walk.costs;
  const std::vector<SamePieces> all = priced(pieces, {costs, walk.change_us, walk.used, 1}, 1);
  double total = 0;
  for (const SamePieces& same : all) total += same.cost * same.count;
  double work = busiest(pieces, all, walk);
  // The slices of the last section begin when the others end, unless there is a team for every piece.
  AttentionShape shape = problem.shape;
  shape.heads /= walk.stacked_heads;
  const double slices = std::max(1.0, slices_of(problem) / walk.stacked_heads / in_turn);
  const double average = std::max(1.0, steps) / count;
  const Sections sections = sections_of(shape, {.tiles = average * walk.tiles,
                                                .longest = std::max(1.0, most / average),
                                                .items = static_cast<std::int64_t>(count / slices),
                                                .teams = static_cast<std::int64_t>(walk.teams)});
  const Sections::Front front = sections.front(static_cast<int>(slices));
  const double last = front.last(static_cast<int>(slices)) / slices;
  if (front.count > 0 && count > walk.teams) {
    const std::vector<SamePieces> end = priced(pieces, {costs, walk.change_us, walk.used, costs[ListTerm::last]}, last);
    const auto with = [&](double us) { return total * (1 - last) / walk.teams + costs[ListTerm::tail] * us; };
    // Most of the time it is hidden even at its worst, and the schedule need not be followed.
    if (with(most_makespan(end, walk.teams)) > work) work = std::max(work, with(makespan(end, walk.teams)));
  }
  work = std::max(work * walk.apart, power_us(problem.shape, multiplied * walk.tiles * walk.parts)) +
         costs[ListTerm::merge] * (most_parts - 1);
  const double us =
      together(work, costs[ListTerm::traffic] * walk.again * traffic_us(problem) / in_turn, costs[ListTerm::overlap]);
  return in_turn * (costs[ListTerm::launch] + of_classes(problem, kUnevenLists, us));
}

// Of an item's head.
bool has_several_row_blocks(const AttentionProblem& problem, const ListedTiles& listed) {
  double row_blocks = 0;
  for (const BlockStats::Bin& bin : listed.row_blocks) row_blocks += static_cast<double>(bin.count);
  const MaskExtent& extent = problem.stats.extent;
  return row_blocks > static_cast<double>(extent.batch * extent.heads);
}

}  // namespace

std::int64_t launches(const AttentionProblem& problem, ListsOf lists) {
  if (problem.from_table) return 1;
  const std::int64_t items = problem.stats.extent.batch;
  switch (lists) {
    case ListsOf::one_mask: return std::max<std::int64_t>(items, problem.stats.groups);
    case ListsOf::all_heads: return items;
    case ListsOf::all_items: break;
  }
  return 1;
}

std::string_view launches_in_words(const AttentionProblem& problem, ListsOf lists) {
  if (launches(problem, ListsOf::one_mask) == 1) return "";
  if (lists == ListsOf::one_mask) return "; a launch for each run of heads with one mask";
  if (problem.stats.extent.batch == 1) return "; one launch for heads with different masks";
  return lists == ListsOf::all_heads ? "; a launch for each item" : "; one launch for items with different masks";
}

constexpr std::int64_t kOfDecode = DecodeList::kPositions;  // queries that decode_attention takes

int heads_to_stack(const AttentionShape& shape, std::int64_t alike_heads) {
  constexpr std::int64_t kMostQueries = 512;
  constexpr std::int64_t kFewRows = 16;   // of a stack: decode_attention takes them as fast as their keys come
  constexpr std::int64_t kMostHeads = 8;  // of a tile
  std::int64_t heads = std::min(alike_heads, kMostHeads);
  while (alike_heads % heads != 0) --heads;
  if (shape.queries > kMostQueries || (shape.queries <= kOfDecode && heads * shape.queries <= kFewRows)) return 1;
  return static_cast<int>(heads);
}

bool is_one_task(const AttentionShape& shape, int heads) {
  constexpr std::int64_t kRowsOfTask = 64;
  return shape.queries <= kOfDecode && heads * shape.queries <= kRowsOfTask;
}

int heads_to_stack(const AttentionProblem& problem, const StreamInstance& instance) {
  if (!instance.stacked || problem.from_table) return 1;
  const int heads = heads_to_stack(problem.shape, problem.alike_heads);
  // Classes of few rows are very many: 10,240 of 64 rows and 16 keys took 6 % longer so, predicted 4 % less
  // (bench/results/h200-stacks-of-three-parts.txt).
  return problem.residues > 1 && is_one_task(problem.shape, heads) ? 1 : heads;
}

const BlockStats* stats_of(const AttentionProblem& problem, int parts) { return stats_of_rows(problem, 64 * parts); }

const BlockStats* stats_of(const AttentionProblem& problem, const StreamInstance& instance) {
  const int heads = heads_to_stack(problem, instance);
  return instance.stacked && heads == 1 ? nullptr : stats_of_rows(problem, 64 / heads * instance.parts);
}

Pricing pricing_of(const DeviceCaps& caps) { return {caps, costs_for(caps.name).table}; }

const ListCosts& costs_of(const StreamInstance& instance, const DeviceCaps& caps) {
  return cost_of(pricing_of(caps).table.stream, stream_instances(), instance);
}

ListedTiles stream_tiles(const AttentionProblem& problem, const BlockStats& stats, int stacked_heads) {
  ListedTiles tiles = tiles_of(problem, stats, stats.partial > stats.full ? 8 : 64);
  tiles.stacked_heads = stacked_heads;
  return tiles;
}

ListedTiles mma_tiles(const AttentionProblem& problem, const BlockStats& stats) {
  return tiles_of(problem, stats, problem.key_pieces.measured ? 8 : 64);
}

SplitEstimate estimate_split(const AttentionProblem& problem, const ListedTiles& listed, int tiles, int splits) {
  const auto heaviest = static_cast<int>(ceil_div(listed.heaviest, tiles));
  SplitEstimate estimate{.most_steps = most_steps(heaviest, splits)};
  if (estimate.most_steps == 0) return estimate;
  const double items = items_per_measured(problem);
  const double unsplit = static_cast<double>(estimate.most_steps) * tiles;  // as many tiles are one part
  for (const BlockStats::Bin& bin : listed.row_blocks)
    if (bin.full + bin.partial > unsplit)
      estimate.parts += static_cast<std::int64_t>(
          part_count(bin, items, parts_of(std::ceil((bin.full + bin.partial) / tiles), estimate.most_steps)) /
          listed.stacked_heads);
  return estimate;
}

double predict_stream(const AttentionProblem& problem, const Pricing& pricing, const StreamInstance& instance,
                      const SplitEstimate& split) {
  const int heads = heads_to_stack(problem, instance);
  const ListedTiles listed = stream_tiles(problem, *stats_of(problem, instance), heads);
  const bool apart = heads > 1 && has_several_row_blocks(problem, listed);
  // Parts of stacks see nearly the same positions.
  const double used =
      heads > 1 ? 1 : used_parts(listed, stream_tiles(problem, *stats_of(problem, 1), 1), instance.parts);
  return predict_walk(problem, pieces_of(problem, listed, instance.tiles, split.most_steps),
                      {.costs = cost_of(pricing.table.stream, stream_instances(), instance),
                       .tiles = instance.tiles,
                       .teams = static_cast<double>(pricing.caps.cores * instance.ctas * instance.teams),
                       .crew = {pricing.caps.cores, instance.ctas, instance.teams},
                       .shared = instance.ctas * instance.teams > 1,
                       .dealt = true,
                       .used = used,
                       .change_us = change_us(problem, instance.parts, instance.tiles, instance.ctas * instance.teams),
                       .stacked_heads = heads,
                       .parts = instance.parts,
                       .again = apart ? times_from_memory(traffic_bytes(problem)) : 1,
                       .apart = apart ? times_apart(instance) : 1,
                       .lists = split.most_steps > 0 ? ListsOf::all_heads : ListsOf::all_items});
}

double predict_mma(const AttentionProblem& problem, const Pricing& pricing, const MmaInstance& instance,
                   const SplitEstimate& split) {
  const ListedTiles listed = mma_tiles(problem, *stats_of(problem, instance.parts));
  // Fewer CTAs than were measured have the multiprocessor to themselves, but hide less.
  const double ctas = static_cast<double>(ctas_of(instance, pricing.caps) + instance.ctas) / 2;
  return predict_walk(problem, pieces_of(problem, listed, 1, split.most_steps),
                      {.costs = cost_of(pricing.table.mma, mma_instances(), instance),
                       .tiles = 1,
                       .teams = pricing.caps.cores * ctas,
                       .crew = {pricing.caps.cores, instance.ctas, 1},
                       .shared = ctas > 1,
                       .dealt = false,
                       .used = used_parts(listed, mma_tiles(problem, *stats_of(problem, 1)), instance.parts),
                       .change_us = change_us(problem, instance.parts, 1, ctas),
                       .parts = instance.parts});
}

double predict_band(const AttentionProblem& problem, const Pricing& pricing, const BandInstance& instance) {
  const BandCosts& costs = cost_of(pricing.table.band, band_instances(), instance);
  double blocks = 0;  // of all measured heads
  for (const BlockStats::Bin& bin : stats_of(problem, instance.parts)->row_blocks)
    blocks += static_cast<double>(bin.count);
  const double ctas = static_cast<double>(pricing.caps.cores * instance.ctas);
  const auto in_turn = static_cast<double>(launches(problem, ListsOf::one_mask));
  const double rounds = blocks * items_per_measured(problem) / ctas / in_turn;
  // CTAs of a last, incomplete round have the multiprocessor's bandwidth to themselves.
  const double whole = rounds + costs[BandTerm::tail] * (std::ceil(rounds) - rounds);
  const double work = whole * costs[BandTerm::round] * load_factor(costs[BandTerm::alone], rounds, 1);
  const double us = together(work, costs[BandTerm::traffic] * traffic_us(problem) / in_turn, costs[BandTerm::overlap]);
  return in_turn * (costs[BandTerm::launch] + of_classes(problem, kUnevenBands, us));
}

double predict_rows(const AttentionProblem& problem, const DeviceCaps& caps) {
  const double rows = static_cast<double>(problem.shape.batch * problem.shape.heads * problem.shape.queries);
  const double work = problem.stats.allowed_pairs * items_per_measured(problem) *
                      static_cast<double>(2 * problem.shape.head_dim + 64) / kRowPairsPerUs;
  const double warps = std::max(1.0, rows);
  // A row is one warp's: few rows leave most multiprocessors idle.
  const double busy = std::min(static_cast<double>(caps.cores), std::max(1.0, warps / 8));
  return kLaunchUs + work / busy + 0.02 * rows / static_cast<double>(caps.cores);
}

}  // namespace stof::cuda
