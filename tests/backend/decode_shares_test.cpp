// SPDX-License-Identifier: Apache-2.0
// Shares of a decode launch: each tile of each task is one CTA's, and who adds up a task finds each of its parts.
#include "kernels/shared/decode_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace stof::cuda {
namespace {

struct Tasks {
  std::vector<int> tiles;
  int start;
  int units(std::size_t task) const { return tiles[task] > 0 ? tiles[task] + start : 1; }
  int total() const {
    int sum = 0;
    for (std::size_t task = 0; task < tiles.size(); ++task) sum += units(task);
    return sum;
  }
};

// A CTA's part of a task lies in its first or its second slot.
using Slot = std::pair<int, bool>;

struct Walk {
  std::vector<std::vector<int>> taken;          // of each task, how often each tile was
  std::vector<std::set<Slot>> parts;            // of each task that no CTA has all of
  std::vector<int> whole;                       // of each task, how many CTAs have all of it
  std::map<int, std::vector<DecodeCut>> ended;  // by the CTA whose piece was a task's last
};

// As for_pieces of decode_attention.cuh goes.
void walk_share(const Tasks& tasks, int ctas, int cta, Walk& walk) {
  DecodeShare share = cut_share(tasks.total(), ctas, cta);
  int begin = 0, index = 0;
  while (share.begin < share.end && begin + tasks.units(static_cast<std::size_t>(index)) <= share.begin)
    begin += tasks.units(static_cast<std::size_t>(index++));
  for (int at = share.begin; at < share.end; ++index) {
    const auto task = static_cast<std::size_t>(index);
    const DecodeTiles tiles = tiles_of(share, at, begin, tasks.tiles[task], tasks.start);
    for (int i = 0; i < tiles.count; ++i) ++walk.taken[task].at(static_cast<std::size_t>(tiles.first + i));
    if (tiles.count == tasks.tiles[task]) ++walk.whole[task];
    else if (tiles.count > 0) {
      EXPECT_TRUE(walk.parts[task].insert({cta, at == share.begin}).second);
      if (tiles.first + tiles.count == tasks.tiles[task])
        walk.ended[cta].push_back(cut_of(share, index, begin, tasks.units(task), tasks.start));
    }
    begin += tasks.units(task);
    at = begin;
  }
}

void expect_complete(const Tasks& tasks, int ctas) {
  const std::size_t count = tasks.tiles.size();
  Walk walk{std::vector<std::vector<int>>(count), std::vector<std::set<Slot>>(count), std::vector<int>(count), {}};
  for (std::size_t task = 0; task < count; ++task) walk.taken[task].resize(static_cast<std::size_t>(tasks.tiles[task]));
  for (int cta = 0; cta < ctas; ++cta) walk_share(tasks, ctas, cta, walk);
  std::vector<DecodeCut> cuts(count, DecodeCut{0, 0, 0, 0});
  for (const auto& [cta, ended] : walk.ended) {
    ASSERT_EQ(ended.size(), 1u) << "two tasks meet at CTA " << cta;
    EXPECT_EQ(ended.front().first + ended.front().count - 1, cta);
    cuts[static_cast<std::size_t>(ended.front().task)] = ended.front();
  }
  for (std::size_t task = 0; task < count; ++task) {
    for (const int times : walk.taken[task]) ASSERT_EQ(times, 1) << "a tile of task " << task;
    ASSERT_EQ(walk.whole[task], walk.parts[task].empty() ? 1 : 0) << "task " << task;
    std::set<Slot> wanted;
    const DecodeCut& cut = cuts[task];
    for (int i = 0; i < cut.count; ++i) wanted.insert({cut.first + i, i > 0 || cut.with_first != 0});
    EXPECT_EQ(walk.parts[task], wanted) << "parts of task " << task;
  }
}

TEST(DecodeShares, TakeEachTileOnce) {
  std::mt19937 random(5);
  const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  for (int i = 0; i < 4000; ++i) {
    Tasks tasks{std::vector<int>(static_cast<std::size_t>(1 + below(300))), below(9)};
    const int most = 1 + below(i % 3 == 0 ? 4 : 300);
    for (int& tiles : tasks.tiles) tiles = below(4) == 0 ? 0 : below(most + 1);
    expect_complete(tasks, 1 + below(264));
    if (testing::Test::HasFailure()) FAIL() << "problem " << i;
  }
}

TEST(DecodeShares, EvenOnesCutNoTaskBesideAnother) {
  for (const int tasks : {1, 2, 7, 8, 33, 66})
    for (const int tiles : {1, 5, 17, 2048}) {
      const int parts = 132 / tasks, ctas = tasks * parts;
      const Tasks alike{std::vector<int>(static_cast<std::size_t>(tasks), tiles), 0};
      expect_complete(alike, ctas);
      for (int cta = 0; cta < ctas; ++cta) {
        const DecodeShare share = cut_share(alike.total(), ctas, cta);
        if (share.begin < share.end) {
          EXPECT_EQ(share.begin / tiles, (share.end - 1) / tiles);
        }
      }
    }
}

// As share_of_alike of decode_tasks.cuh finds it, whose quotient may be one off.
TEST(DecodeShares, OfAlikeTasksHaveTheirFirstTaskByAQuotient) {
  for (const int units : {1, 2, 5, 64, 1000})
    for (const int count : {1, 3, 128, 132, 500})
      for (const int ctas : {1, 2, 97, 132, 264})
        for (int cta = 0; cta < std::min(ctas, units * count); ++cta) {
          DecodeShare share = cut_share(units * count, ctas, cta);
          for (const int off : {-1, 0, 1}) {
            share.find_task(cta * count / share.ctas + off, units);
            EXPECT_EQ(share.task, share.begin / units);
            EXPECT_EQ(share.offset, share.begin % units);
          }
        }
}

TEST(DecodeShares, OfNothingAreEmpty) {
  const DecodeShare share = cut_share(0, 132, 3);
  EXPECT_EQ(share.begin, share.end);
}

}  // namespace
}  // namespace stof::cuda
