// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/call_pieces.h"

#include <algorithm>

#include "src/backend/even_items.h"
#include "src/base/error.h"
#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

// A run without items, whose lists are made in the call's memory.
ItemRun empty_run(const stof::AttentionCall& call, std::size_t first) {
  std::pmr::memory_resource* const memory = call.memory;
  return {.first = first,
          .query_lengths = std::pmr::vector<int>(memory),
          .key_lengths = std::pmr::vector<int>(memory),
          .query_starts = std::pmr::vector<int>(memory),
          .key_starts = std::pmr::vector<int>(memory)};
}

void add_lengths(ItemRun& run, const AttentionItem& item) {
  run.query_lengths.push_back(narrow<int>(item.queries, "queries"));
  run.key_lengths.push_back(narrow<int>(item.keys, "keys"));
}

// How many times `step` the item lies from `first`; -1 where it does not lie on that grid. Only `out` must lie apart.
std::int64_t place_of(const ItemRun& step, const AttentionItem& first, const AttentionItem& item) {
  if (step.out <= 0 || (item.out - first.out) % step.out != 0) return -1;
  const std::int64_t n = (item.out - first.out) / step.out;
  const bool even = item.q - first.q == n * step.q && item.k - first.k == n * step.k &&
                    item.v - first.v == n * step.v && item.out - first.out == n * step.out &&
                    item.lse - first.lse == n * step.lse && item.place - first.place == n * step.place;
  return even ? n : -1;
}

// Places without rows between two items, which others of the call have that go by another plan. An estimate: each takes
// some tenths of a microsecond for every head and row block, a launch of its own several whole ones.
constexpr std::int64_t kMostSkipped = 16;

// Where the first two items are not neighbours, others that are may follow.
void step_by_one_place(ItemRun& run) {
  const std::int64_t places = run.place;
  if (places < 2 || places > kMostSkipped) return;
  for (const std::int64_t distance : {run.q, run.k, run.v, run.out, run.lse})
    if (distance % places != 0) return;
  for (std::int64_t* const distance : {&run.q, &run.k, &run.v, &run.out, &run.lse, &run.place}) *distance /= places;
}

// Of items[begin] and those after it.
ItemRun spaced_run(const stof::AttentionCall& call, std::span<const AttentionItem> items, std::size_t begin,
                   std::int64_t most) {
  const AttentionItem& first = items[begin];
  ItemRun run = empty_run(call, begin);
  run.count = run.places = 1;
  add_lengths(run, first);
  if (begin + 1 < items.size()) {
    const AttentionItem& second = items[begin + 1];
    run.q = second.q - first.q, run.k = second.k - first.k, run.v = second.v - first.v;
    run.out = second.out - first.out, run.lse = second.lse - first.lse;
    run.place = second.place - first.place;
    step_by_one_place(run);
  }
  run.query_rows = first.queries, run.key_rows = first.keys;
  for (; begin + run.count < items.size(); ++run.count) {
    const AttentionItem& item = items[begin + run.count];
    const std::int64_t place = place_of(run, first, item);
    if (place < run.places || place >= most) break;
    run.query_lengths.resize(static_cast<std::size_t>(place), 0);
    run.key_lengths.resize(static_cast<std::size_t>(place), 0);
    add_lengths(run, item);
    run.places = place + 1;
    run.query_rows = std::max(run.query_rows, item.queries);
    run.key_rows = std::max(run.key_rows, item.keys);
  }
  return run;
}

// Rows between two offsets; -1 when they are not whole rows apart. An item that is alone needs no stride.
std::int64_t rows_between(std::int64_t from, std::int64_t to, std::int64_t row) {
  if (from == to) return 0;
  return row > 0 && to >= from && (to - from) % row == 0 ? (to - from) / row : -1;
}

void skip_places(ItemRun& run, std::int64_t count) {
  for (std::pmr::vector<int>* const numbers :
       {&run.query_lengths, &run.key_lengths, &run.query_starts, &run.key_starts})
    numbers->resize(numbers->size() + static_cast<std::size_t>(count), 0);
  run.places += count;
}

ItemRun run_in_a_row(const stof::AttentionCall& call, std::size_t begin, std::int64_t most) {
  const AttentionItem& first = call.items[begin];
  ItemRun run = empty_run(call, begin);
  run.in_a_row = true;
  // An item's place is its row of the page table, and says which tree it has: those of others between them have no rows
  // here.
  const bool has_places = call.pages.table != nullptr || call.trees.item_stride != 0;
  for (; begin + run.count < call.items.size() && run.places < most; ++run.count) {
    const AttentionItem& item = call.items[begin + run.count];
    const std::int64_t q = rows_between(first.q, item.q, call.q_strides.row);
    const std::int64_t k = rows_between(first.k, item.k, call.k_strides.row);
    const std::int64_t skipped = has_places ? item.place - first.place - run.places : 0;
    const bool near = skipped >= 0 && skipped <= kMostSkipped && run.places + skipped < most;
    if (!near || q < 0 || k < 0 || rows_between(first.out, item.out, call.out_strides.row) != q ||
        rows_between(first.v, item.v, call.v_strides.row) != k)
      break;
    skip_places(run, skipped);
    add_lengths(run, item);
    run.query_starts.push_back(narrow<int>(q, "rows of a packed batch"));
    run.key_starts.push_back(narrow<int>(k, "keys of a packed batch"));
    run.query_rows = std::max(run.query_rows, q + item.queries);
    run.key_rows = std::max(run.key_rows, k + item.keys);
    ++run.places;
  }
  return run;
}

// Items with room of their own, or packed ones that lie as if they had.
bool spaced(const stof::AttentionCall& call, std::span<const AttentionItem> items) {
  return !call.packed || items.size() < 2 || (items_lie_evenly(items) && items[1].out > items[0].out);
}

}  // namespace

std::vector<HeadRun> head_runs(std::span<const int> groups, std::int64_t heads_per_kv) {
  std::vector<HeadRun> runs;
  const auto heads = std::ssize(groups);
  for (std::int64_t head = 0; head < heads;) {
    const int group = groups[static_cast<std::size_t>(head)];
    std::int64_t end = head;
    while (end < heads && groups[static_cast<std::size_t>(end)] == group) ++end;
    const std::int64_t next_kv = (head / heads_per_kv + 1) * heads_per_kv;
    if (head % heads_per_kv == 0 && end - head >= heads_per_kv) {
      end -= end % heads_per_kv;
      runs.push_back({head, end - head, heads_per_kv, group});
    } else {
      end = std::min(end, next_kv);
      runs.push_back({head, end - head, end - head, group});
    }
    head = end;
  }
  return runs;
}

std::pmr::vector<ItemRun> item_runs(const stof::AttentionCall& call, std::int64_t most) {
  std::pmr::vector<ItemRun> runs(call.memory);
  const bool in_a_row = !spaced(call, call.items);
  for (std::size_t begin = 0; begin < call.items.size(); begin += runs.back().count) {
    runs.push_back(in_a_row ? run_in_a_row(call, begin, most) : spaced_run(call, call.items, begin, most));
    STOF_CHECK(runs.back().count > 0);
  }
  return runs;
}

std::pmr::vector<AttentionItem> classes_of_each_item(const stof::AttentionCall& call) {
  std::pmr::vector<AttentionItem> items(call.memory);
  items.reserve(call.items.size());
  const std::size_t count = call.items.size() / static_cast<std::size_t>(call.residues);
  for (std::size_t item = 0; item < count; ++item)
    for (std::size_t at = item; at < call.items.size(); at += count) items.push_back(call.items[at]);
  return items;
}

std::optional<ItemRun> class_run(const stof::AttentionCall& call, std::int64_t most) {
  const auto classes = static_cast<std::size_t>(call.residues);
  const std::size_t count = call.items.size() / classes;
  if (classes < 2 || count == 0 || count * classes != call.items.size()) return std::nullopt;
  if (!spaced(call, call.items.first(count))) return std::nullopt;
  ItemRun run = spaced_run(call, call.items.first(count), 0, most / call.residues);
  if (run.count != count) return std::nullopt;
  const AttentionItem &first = call.items[0], &second = call.items[count];
  run.residues = call.residues;
  run.q_class = second.q - first.q, run.k_class = second.k - first.k, run.v_class = second.v - first.v;
  run.out_class = second.out - first.out, run.lse_class = second.lse - first.lse;
  for (std::size_t i = count; i < call.items.size(); ++i) {
    const AttentionItem &item = call.items[i], &of_first = call.items[i % count];
    const auto n = static_cast<std::int64_t>(i / count);
    const bool even = item.q - of_first.q == n * run.q_class && item.k - of_first.k == n * run.k_class &&
                      item.v - of_first.v == n * run.v_class && item.out - of_first.out == n * run.out_class &&
                      item.lse - of_first.lse == n * run.lse_class && item.queries == of_first.queries &&
                      item.keys == of_first.keys;
    if (!even) return std::nullopt;
  }
  run.count = call.items.size();
  return run;
}

}  // namespace stof::cuda
