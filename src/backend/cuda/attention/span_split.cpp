// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/span_split.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "src/backend/cuda/attention/arrange.h"
#include "src/backend/cuda/attention/listed_mask.h"
#include "src/backend/cuda/attention/team_times.h"

namespace stof::cuda {
namespace {

// Of rows [first, end) of positions, about: with spans that lie between those of the first and the last one.
int steps_of(const SpanForm& form, std::size_t first, std::size_t end, int keys, int key_step) {
  const RowSpan &a = form.rows[first], &b = form.rows[end - 1];
  const int range_end = std::min(std::max(a.end, b.end), keys);
  const int begin = std::min({a.begin, b.begin, range_end}) & -key_step;
  const int prefix = std::min(std::max(a.prefix_end, b.prefix_end), begin);
  return static_cast<int>(ceil_div(ceil_div(range_end - begin, 64) + ceil_div(prefix, 64), form.tiles));
}

// Where row blocks begin: from an item's first row on, or at positions that 64 divides.
struct Placement {
  const SpanForm& form;
  const SpanItems& items;
  bool aligned;

  // Rows that the first row block of an item has in front of its first row.
  int before(std::size_t item) const {
    return aligned && items.keys[item] > 0 ? (items.keys[item] - items.queries[item]) & 63 : 0;
  }
  std::int64_t row_blocks(std::size_t item) const {
    return items.queries[item] == 0 ? 0 : ceil_div(before(item) + items.queries[item], form.block_rows);
  }
  // Of an item's n-th.
  int steps(std::size_t item, std::int64_t n) const {
    const int queries = items.queries[item], keys = items.keys[item], first = keys - queries - form.first_position;
    if (keys == 0) return 0;
    const std::int64_t row = n * form.block_rows - before(item);
    const auto begin = static_cast<std::size_t>(first + std::max<std::int64_t>(row, 0)),
               end = static_cast<std::size_t>(first + std::min<std::int64_t>(row + form.block_rows, queries));
    return steps_of(form, begin, end, keys, items.key_step);
  }
};

// Of the first items, whether their last row blocks have more steps than their first ones.
bool last_have_most(const Placement& placed) {
  constexpr std::size_t kLookedAt = 16;
  std::int64_t more = 0;
  for (std::size_t i = 0; i < std::min(placed.items.queries.size(), kLookedAt); ++i)
    if (const std::int64_t count = placed.row_blocks(i); count > 0)
      more += placed.steps(i, count - 1) - placed.steps(i, 0);
  return more >= 0;
}

// A launch's row blocks in the order in which they are taken, each of which stands for `alike`. A call may not
// allocate: of many every second or third is there.
struct Sample {
  struct Block {
    int steps;
    std::int64_t turn;  // of those of its item
    std::size_t item;
  };
  static constexpr std::int64_t kMost = 64;
  std::array<Block, kMost> blocks;
  std::size_t count = 0;
  double alike = 1;
  std::int64_t stride = 1;
  bool last_first = true;  // SpanSplit's
  bool uneven = false;     // the heaviest row blocks of two items differ by more than half

  std::span<const Block> all() const { return std::span(blocks).first(count); }
  // How many turns there are until no row block has more steps than that.
  std::int64_t split_blocks(int part_steps) const {
    std::int64_t turns = 1;
    for (const Block& block : all())
      if (block.steps > part_steps) turns = std::max(turns, block.turn + stride);
    return turns;
  }
  int heaviest() const { return std::ranges::max_element(all(), {}, &Block::steps)->steps; }
};

Sample sample_of(const Placement& placed) {
  const std::size_t items = placed.items.queries.size();
  std::int64_t blocks = 0;
  for (std::size_t i = 0; i < items; ++i) blocks += placed.row_blocks(i);
  const std::int64_t stride = std::max<std::int64_t>(1, ceil_div(blocks, Sample::kMost));
  Sample sample;
  sample.stride = stride;
  sample.alike = static_cast<double>(stride) * placed.items.slices_of_item;
  sample.last_first = last_have_most(placed);
  std::int64_t next = 0;                                  // blocks until the next that is looked at
  int least = std::numeric_limits<int>::max(), most = 0;  // of the heaviest of each item
  for (std::size_t i = 0; i < items; ++i) {
    const std::int64_t count = placed.row_blocks(i);
    int heaviest = -1;
    for (; next < count; next += stride) {
      sample.blocks[sample.count++] = {placed.steps(i, next), sample.last_first ? count - 1 - next : next, i};
      heaviest = std::max(heaviest, sample.blocks[sample.count - 1].steps);
    }
    next -= count;
    if (heaviest >= 0) least = std::min(least, heaviest), most = std::max(most, heaviest);
  }
  sample.uneven = placed.items.known && sample.count > 0 && 2 * most > 3 * least;
  if (sample.uneven)
    std::ranges::sort(sample.blocks.begin(), sample.blocks.begin() + static_cast<std::ptrdiff_t>(sample.count), {},
                      [](const Sample::Block& block) { return std::pair(block.turn, block.item); });
  return sample;
}

// What adding up takes: the last part of a row block to end reads the others' results one after the other; a grid
// behind all reads them at once, and has to be launched.
struct Sums {
  double by_last = 0, by_grid = 0;
  double least() const { return std::min(by_last, by_grid); }
};
Sums sums_of(const Placement& placed, double pieces, double most_parts) {
  constexpr double kLaunchUs = 2, kBytesAUs = 3e6;  // estimates, not calibrated
  if (most_parts <= 1) return {};
  const SpanForm& form = placed.form;
  const bool has_grid = placed.items.share == 1;
  return {form.costs[ListTerm::merge] * (most_parts - 1),
          has_grid ? kLaunchUs + pieces * form.slot_bytes / kBytesAUs : std::numeric_limits<double>::infinity()};
}

struct Prediction {
  double us = 0;
  bool summed = false;
};

// Row blocks as they are cut.
struct Cut {
  const ListCosts& costs;
  int part_steps;
  double load;  // of steps, by how many teams have work

  double parts(int steps) const { return std::max(1.0, static_cast<double>(ceil_div(steps, part_steps))); }
  // Of a part.
  double us(int steps) const {
    return costs[ListTerm::item] + (parts(steps) > 1 ? costs[ListTerm::part] : 0) +
           load * costs[ListTerm::full] * std::ceil(steps / parts(steps));
  }
};

// Until the last team is done, of pieces that differ: one part of all row blocks is taken after the other. No less than
// `best` is not of interest.
double us_of_uneven(const Sample& sample, const Cut& cut, double teams, double most_parts, double best) {
  TeamTimes times(teams);
  for (double part = most_parts - 1; part >= 0 && times.last() < best; --part)
    for (const Sample::Block& block : sample.all())
      if (part < cut.parts(block.steps)) times.take(sample.alike, cut.us(block.steps));
  return times.last();
}

// Teams take the next piece when they are done with one. Pieces that are alike come in rounds, and of others the
// shortest ones, which are the last, even out how long the longer ones take. Row blocks with fewer parts than the
// heaviest one are looked at as if they had as many.
Prediction predict(const Placement& placed, const Sample& sample, int part_steps,
                   double best = std::numeric_limits<double>::infinity()) {
  constexpr double kLookUs = 1.2;  // an estimate, with the queue's atomic
  const SpanForm& form = placed.form;
  const ListCosts& costs = form.costs;
  double count = 0, total = 0, longest = 0, shortest = 0, most_parts = 1;
  const double teams = form.teams * placed.items.share;
  for (const auto& [steps, turn, item] : sample.all())
    count += sample.alike * static_cast<double>(ceil_div(steps, part_steps));
  const double load = costs[ListTerm::alone] + (1 - costs[ListTerm::alone]) * std::min(1.0, count / teams);
  const Cut cut{costs, part_steps, load};
  count = 0;
  for (const auto& [steps, turn, item] : sample.all()) {
    const double parts = cut.parts(steps), us = cut.us(steps);
    count += sample.alike * parts, total += sample.alike * parts * us;
    longest = std::max(longest, us), shortest = shortest == 0 ? us : std::min(shortest, us);
    most_parts = std::max(most_parts, parts);
  }
  const double looked_at = sample.alike * static_cast<double>(sample.count) * most_parts;
  const double in_rounds = std::ceil(count / teams) * total / count;
  const double least = std::max(longest, total / teams);
  const double work = !sample.uneven  ? std::max(longest, std::min(in_rounds, total / teams + shortest))
                      : least >= best ? least
                                      : us_of_uneven(sample, cut, teams, most_parts, best);
  const Sums sums = sums_of(placed, count, most_parts);
  return {work + sums.least() + kLookUs * (looked_at - count) / teams, sums.by_grid < sums.by_last};
}

std::int64_t slices_in(const SpanItems& items) {
  return static_cast<std::int64_t>(items.queries.size()) * items.slices_of_item;
}

// Results that a launch has room for: of so many parts for each team, which then work in rounds that are nearly full.
constexpr std::int64_t kPartsOfTeam = 8, kPartialBytes = std::int64_t{128} << 20;

}  // namespace

SpanForm span_form(const StreamInstance& instance, int stacked_heads, const ListCosts& costs, const DeviceCaps& caps) {
  const std::int64_t teams = std::int64_t{caps.cores} * instance.ctas * instance.teams;
  const auto slot_bytes = static_cast<std::int64_t>(static_cast<std::size_t>(instance.parts) *
                                                    partial_floats(instance.head_dim) * sizeof(float));
  return {.rows = {},
          .block_rows = 64 / stacked_heads * instance.parts,
          .tiles = instance.tiles,
          .costs = costs,
          .teams = static_cast<double>(teams),
          .stacked = stacked_heads > 1,
          .slots = std::min(kPartsOfTeam * teams, kPartialBytes / slot_bytes),
          .slot_bytes = static_cast<double>(slot_bytes)};
}

int key_step_in_pages(const SpanForm& form) {
  struct Step {
    int keys;
    // Of a tile, estimates: pages of 16 take 3 to 5 % longer than pages of 64 in bench/results/h200-paged-chunks.json,
    // up to 7 % in h200-span-states.txt.
    double cost;
  };
  constexpr Step kSteps[] = {{64, 1}, {32, 1.03}, {16, 1.08}};
  constexpr std::int64_t kLookedAt = 256;
  const auto rows = static_cast<std::int64_t>(form.rows.size());
  const std::int64_t begins = rows - form.block_rows + 1, stride = ceil_div(begins, kLookedAt) | 1;
  if (begins <= 0) return kSteps[0].keys;
  const auto mean = [&](int key_step, std::int64_t first, std::int64_t apart) {
    double steps = 0, count = 0;
    for (std::int64_t row = first; row < begins; row += apart, ++count)
      steps += steps_of(form, static_cast<std::size_t>(row), static_cast<std::size_t>(row + form.block_rows),
                        std::numeric_limits<int>::max(), key_step);
    return count > 0 ? steps / count : std::numeric_limits<double>::infinity();
  };
  const auto cost_of = [&](const Step& step) {
    const double anywhere = mean(step.keys, 0, stride);
    // At positions that 64 divides, as Placement has them.
    const double aligned =
        form.stacked ? anywhere : mean(step.keys, -form.first_position & 63, ceil_div(stride, 64) * 64);
    return step.cost * std::min(anywhere, aligned);
  };
  return std::ranges::min_element(kSteps, {}, cost_of)->keys;
}

std::int64_t slots_of(const SpanForm& form, const SpanItems& items) {
  const SpanSplit split = split_spans(form, items);
  return split.parts > 1 ? split.split_blocks * slices_in(items) * split.parts : 0;
}

SpanSplit split_spans(const SpanForm& form, const SpanItems& items) { return time_split(form, items).split; }

namespace {

SplitTime time_split(const Placement& placed) {
  const auto& [form, items, aligned] = placed;
  SpanSplit split{.aligned = aligned};
  const Sample sample = sample_of(placed);
  if (sample.count == 0) return {};
  std::int64_t most = 0;
  for (std::size_t i = 0; i < items.queries.size(); ++i) most = std::max(most, placed.row_blocks(i));
  split.row_blocks = static_cast<int>(most);
  const int heaviest = std::max(1, sample.heaviest());
  split.part_steps = heaviest;
  split.last_first = sample.last_first;
  double best = predict(placed, sample, heaviest).us;
  for (const int parts : kSplits) {
    const int part_steps = static_cast<int>(ceil_div(heaviest, parts));
    const std::int64_t slots = std::min<std::int64_t>(most, sample.split_blocks(part_steps)) * parts;
    const bool fits = slots * slices_in(items) <= form.slots && slots <= kMostSlots;
    if (parts == 1 || !fits || heaviest < parts * kFewestSteps) continue;
    const Prediction predicted = predict(placed, sample, part_steps, best);
    if (predicted.us >= best) continue;
    best = predicted.us;
    split.parts = parts, split.part_steps = part_steps, split.summed = predicted.summed;
    split.split_blocks = static_cast<int>(slots / parts);
  }
  double steps = 0;
  for (const Sample::Block& block : sample.all()) steps += sample.alike * block.steps;
  return {split, best, steps};
}

}  // namespace

SplitTime time_split(const SpanForm& form, const SpanItems& items) {
  const SplitTime from_first = time_split(Placement{form, items, false});
  if (form.stacked || !items.known) return from_first;
  constexpr double kGain = 0.99;  // less is within what predictions are off
  const SplitTime aligned = time_split(Placement{form, items, true});
  return aligned.us < kGain * from_first.us ? aligned : from_first;
}

}  // namespace stof::cuda
