// SPDX-License-Identifier: Apache-2.0
// Lists of all heads of an item: every row block of every head once, as in the list of the head's own mask.
#include "src/backend/cuda/attention/mixed_heads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "src/layout/pack.h"
#include "tests/mask/random_mask.h"

namespace stof::cuda {
namespace {

// What a head has to do, but for the slots of what is split: row, first step, steps, full steps, part and parts.
using Work = std::multiset<std::tuple<int, int, int, int, int>>;

std::tuple<int, int, int, int, int> work_of(const StreamItem& item) {
  return {item.row, item.first_step, item.steps, item.full_steps, item.split >> 16};
}

Work work_of(const ArrangedStream& arranged, const StreamGroup& group) {
  Work work;
  for (int i = 0; i < group.item_count; ++i)
    work.insert(work_of(arranged.items[static_cast<std::size_t>(group.first_item + i)]));
  return work;
}

// Parts of one row block share a first slot, and no two parts a slot.
void expect_slots(const MixedHeads& mixed, const StreamGroup& list) {
  std::map<std::pair<int, int>, int> first_slots;
  std::set<int> slots;
  for (int i = 0; i < list.item_count; ++i) {
    const StreamItem& item = mixed.items[static_cast<std::size_t>(list.first_item + i)];
    if (item.split == 0) continue;
    const int first = item.split & 0xffff;
    EXPECT_EQ(first_slots.try_emplace({item.head, item.row}, first).first->second, first);
    EXPECT_TRUE(slots.insert(first + (item.split >> 16 & 0xff)).second) << "slot of head " << item.head;
  }
  EXPECT_EQ(std::ssize(slots), list.slots);
  EXPECT_TRUE(slots.empty() || *slots.rbegin() == list.slots - 1);
}

// In turns, the heaviest heads first, and dearest first in each turn. Every head has `blocks` row blocks, none is
// split.
void expect_order(const MixedHeads& mixed, const HeadMix& mix, int blocks) {
  std::map<int, std::int64_t> steps;
  for (const StreamItem& item : mixed.items) steps[item.head] += item.steps;
  auto begin = mixed.items.begin();
  std::int64_t lightest = std::numeric_limits<std::int64_t>::max();
  for (int turn = 0; turn <= mix.turns; ++turn) {
    const int width = turn < mix.turns ? mix.width : mix.heads - mix.turns * mix.width;
    const auto end = begin + std::ptrdiff_t{width} * blocks;
    EXPECT_TRUE(std::is_sorted(begin, end, [](const auto& a, const auto& b) { return a.steps > b.steps; }));
    std::map<int, int> heads;
    for (; begin != end; ++begin) ++heads[begin->head];
    EXPECT_EQ(std::ssize(heads), width);
    const std::int64_t heaviest_left = lightest;
    for (const auto& [head, count] : heads) {
      EXPECT_EQ(count, blocks) << "head " << head;
      EXPECT_LE(steps[head], heaviest_left);
      lightest = std::min(lightest, steps[head]);
    }
  }
  EXPECT_EQ(begin, mixed.items.end());
}

void expect_every_head_once(const ArrangedStream& arranged, const HeadMix& mix) {
  const auto mixed = mix_heads(arranged, mix);
  ASSERT_TRUE(mixed);
  ASSERT_EQ(mixed->groups.size() * static_cast<std::size_t>(mix.heads), mix.group_of.size());
  for (std::size_t item = 0; item < mixed->groups.size(); ++item) {
    const StreamGroup& list = mixed->groups[item];
    std::map<int, Work> found;
    for (int i = 0; i < list.item_count; ++i) {
      const StreamItem& one = mixed->items[static_cast<std::size_t>(list.first_item + i)];
      found[one.head].insert(work_of(one));
    }
    ASSERT_EQ(std::ssize(found), mix.heads);
    for (const auto& [head, work] : found) {
      const int group = mix.group_of[item * static_cast<std::size_t>(mix.heads) + static_cast<std::size_t>(head)];
      EXPECT_EQ(work, work_of(arranged, arranged.groups[static_cast<std::size_t>(group)])) << "head " << head;
    }
    expect_slots(*mixed, list);
  }
}

TEST(MixedHeads, HaveEveryRowBlockOfEveryHeadOnce) {
  int differ = 0;
  for (unsigned seed = 0; seed < 120; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
    const MaskExtent extent{
        .queries = 1 + below(330), .keys = 340 + below(60), .batch = 1 + below(2), .heads = 2 + below(4)};
    RandomMask of(seed, extent, false);
    const Mask mask = heads({{0, below(2), of.expression(1)}}, of.expression(1));
    const BlockLayout layout = pack_blocks(BoundMask(mask, extent), {.block_q = 64, .block_kv = 64, .key_step = 64});
    const ArrangedStream arranged = arrange_stream(layout, {.most_steps = static_cast<int>(below(3))});
    differ += heads_differ(layout.group_of, extent.heads);
    SCOPED_TRACE(testing::Message() << "seed " << seed << " " << mask.text());
    const int count = static_cast<int>(extent.heads), width = 1 + static_cast<int>(below(count));
    expect_every_head_once(arranged,
                           {.group_of = layout.group_of, .heads = count, .width = width, .turns = (count - 1) / width});
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(differ, 60);
}

TEST(MixedHeads, TakeTheHeaviestHeadsFirstInTurns) {
  const MaskExtent extent{.queries = 1024, .keys = 1024, .heads = 6};
  const BoundMask mask(parse("heads(0-1: window(30), 3: all, *: causal)"), extent);
  const BlockLayout layout = pack_blocks(mask, {.block_q = 64, .block_kv = 64, .key_step = 64});
  const ArrangedStream arranged = arrange_stream(layout, {});
  for (const auto& [width, turns] : {std::pair(1, 0), {1, 5}, {2, 2}, {1, 2}, {4, 1}, {6, 0}}) {
    const HeadMix mix{.group_of = layout.group_of, .heads = 6, .width = width, .turns = turns};
    const auto mixed = mix_heads(arranged, mix);
    ASSERT_TRUE(mixed);
    SCOPED_TRACE(testing::Message() << width << " heads, " << turns << " turns");
    expect_order(*mixed, mix, 16);
  }
  const auto one = mix_heads(arranged, {.group_of = layout.group_of, .heads = 6, .width = 6, .turns = 0});
  EXPECT_EQ(one->items.front().head, 3) << "the dense one";
  EXPECT_EQ(one->items.size(), 6u * 16u);
  EXPECT_EQ(arranged.items.size(), 3u * 16u) << "equal heads share steps and words";
}

TEST(MixedHeads, AreAsManyAsTheirPartsCanBeNumbered) {
  ArrangedStream arranged;
  arranged.items = {
      {.row = 0, .first_step = 0, .steps = 1, .full_steps = 0, .split = 2 << 24, .head = 0, .late_steps = 0}};
  arranged.groups = {{.first_item = 0, .item_count = 1, .slots = 300}};
  const std::vector<int> few(200, 0), many(300, 0);
  EXPECT_TRUE(mix_heads(arranged, {.group_of = few, .heads = 200, .width = 200, .turns = 0}));
  EXPECT_FALSE(mix_heads(arranged, {.group_of = many, .heads = 300, .width = 300, .turns = 0}));
}

TEST(MixedHeads, AreThoseOfAnItemThatDiffer) {
  EXPECT_FALSE(heads_differ(std::vector{0, 0, 0}, 3));
  EXPECT_FALSE(heads_differ(std::vector{0, 0, 1, 1}, 2)) << "items do, not their heads";
  EXPECT_TRUE(heads_differ(std::vector{0, 0, 1, 0}, 2));
  EXPECT_FALSE(heads_differ(std::vector{0, 1, 2}, 1));
}

}  // namespace
}  // namespace stof::cuda
