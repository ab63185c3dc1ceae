// SPDX-License-Identifier: Apache-2.0
#include "src/model/byte_pairs.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "src/base/hash.h"
#include "src/base/narrow.h"

namespace stof {

BytePairs::BytePairs(const std::vector<Merge>& merges) : rules_(std::bit_ceil(2 * merges.size() + 2)) {
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const std::uint64_t pair = pair_of(merges[i].left, merges[i].right);
    rules_[slot_of(pair)] = {.pair = pair, .rank = narrow<std::int32_t>(i, "merge"), .merged = merges[i].merged};
  }
}

// Where the pair is, or where it would be.
std::size_t BytePairs::slot_of(std::uint64_t pair) const {
  std::size_t slot = splitmix64(pair) & (rules_.size() - 1);
  while (rules_[slot].rank != kNone && rules_[slot].pair != pair) slot = (slot + 1) & (rules_.size() - 1);
  return slot;
}

const BytePairs::Rule* BytePairs::find(std::int32_t left, std::int32_t right) const {
  const Rule& rule = rules_[slot_of(pair_of(left, right))];
  return rule.rank == kNone ? nullptr : &rule;
}

namespace {

constexpr auto comes_later = [](const auto& a, const auto& b) {
  return std::tie(a.rank, a.place) > std::tie(b.rank, b.place);
};

}  // namespace

// The pair that begins at `place`, if there is one and it merges.
void BytePairs::consider(Work& work, std::int32_t place) const {
  if (place == kNone) return;
  const Work::Symbol& symbol = work.symbols[static_cast<std::size_t>(place)];
  if (symbol.next == kNone) return;
  const Rule* rule = find(symbol.id, work.symbols[static_cast<std::size_t>(symbol.next)].id);
  if (!rule) return;
  work.candidates.push_back({.rank = rule->rank, .place = place, .merged = rule->merged});
  std::push_heap(work.candidates.begin(), work.candidates.end(), comes_later);
}

void BytePairs::Work::add(std::int32_t id) {
  const auto place = narrow<std::int32_t>(symbols.size(), "symbols of a word");
  symbols.push_back({.id = id, .previous = place - 1, .next = place + 1});
}

void BytePairs::append_ids(Work& work, std::vector<std::int32_t>& ids) const {
  if (work.symbols.empty()) return;
  work.symbols.back().next = kNone;
  for (std::int32_t i = 0; i < std::ssize(work.symbols); ++i) consider(work, i);
  while (!work.candidates.empty()) {
    std::pop_heap(work.candidates.begin(), work.candidates.end(), comes_later);
    const Work::Candidate candidate = work.candidates.back();
    work.candidates.pop_back();
    Work::Symbol& left = work.symbols[static_cast<std::size_t>(candidate.place)];
    if (left.id == kNone || left.next == kNone) continue;  // merged into what is before it, or the last by now
    Work::Symbol& right = work.symbols[static_cast<std::size_t>(left.next)];
    const Rule* rule = find(left.id, right.id);
    if (!rule || rule->merged != candidate.merged) continue;  // another pair by now
    left.id = candidate.merged;
    right.id = kNone;
    left.next = right.next;
    if (left.next != kNone) work.symbols[static_cast<std::size_t>(left.next)].previous = candidate.place;
    consider(work, left.previous);
    consider(work, candidate.place);
  }
  for (const Work::Symbol& symbol : work.symbols)
    if (symbol.id != kNone) ids.push_back(symbol.id);
  work.symbols.clear();
}

}  // namespace stof
