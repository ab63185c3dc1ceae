// SPDX-License-Identifier: Apache-2.0
// In which order pieces are taken, and how the last ones are cut.
#include "src/backend/cpu/attention/work_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace stof::cpu {
namespace {

constexpr int kPart = 32;

// Row-blocks of 128 rows from a lane on, costlier ones with more rows.
std::pmr::vector<Piece> pieces(int count, int lane) {
  std::pmr::vector<Piece> all;
  for (int i = 0; i < count; ++i) {
    Piece piece{.head = i % 3, .row = 1000 * i, .rows = 128 - lane, .begin = i, .end = i + 4, .lane = lane};
    piece.cost_ns = 100 * (i + 1) * static_cast<double>(piece.rows);
    all.push_back(piece);
  }
  return all;
}

// Every row once, and at which lane.
std::set<std::pair<std::int64_t, std::int64_t>> rows_of(const std::pmr::vector<Piece>& pieces) {
  std::set<std::pair<std::int64_t, std::int64_t>> rows;
  for (const Piece& piece : pieces)
    for (std::int64_t i = 0; i < piece.rows; ++i) EXPECT_TRUE(rows.emplace(piece.row + i, piece.lane + i).second);
  return rows;
}

double total_cost(const std::pmr::vector<Piece>& pieces) {
  double total = 0;
  for (const Piece& piece : pieces) total += piece.cost_ns;
  return total;
}

TEST(WorkList, CutsTheLastPieceOfEachThread) {
  for (const int lane : {0, 5, 40})
    for (const int threads : {2, 3, 16}) {
      const std::pmr::vector<Piece> whole = pieces(8, lane);
      std::pmr::vector<Piece> cut = whole;
      line_up(cut, threads, kPart);
      EXPECT_EQ(rows_of(cut), rows_of(whole));
      EXPECT_NEAR(total_cost(cut), total_cost(whole), 1e-3);
      const auto parts = std::count_if(cut.begin(), cut.end(), [](const Piece& p) { return p.rows <= kPart; });
      EXPECT_EQ(parts, std::min(threads, 8) * (4 - lane / kPart)) << lane << " " << threads;
      for (const Piece& piece : cut)  // whole panels of the kernel
        EXPECT_EQ(piece.lane == lane ? 0 : piece.lane % kPart, 0);
    }
}

TEST(WorkList, TakesTheCostliestFirstAndCutsNothingUnasked) {
  std::pmr::vector<Piece> all = pieces(8, 0);
  line_up(all, 2, 0);
  EXPECT_EQ(all.size(), 8u);
  EXPECT_TRUE(
      std::is_sorted(all.begin(), all.end(), [](const Piece& a, const Piece& b) { return a.cost_ns > b.cost_ns; }));
}

// 12 heads of 64 bf16, of so many rows, a row of one head `row` numbers behind the one before.
bool brought_near(std::int64_t rows, std::int64_t row) {
  const AttentionItem item{.queries = rows, .keys = rows};
  AttentionCall call;
  call.q_strides = call.k_strides = call.v_strides = {.head = 64, .row = row};
  call.heads = call.kv_heads = 12;
  call.head_dim = 64;
  call.dtype = DType::bf16;
  call.items = {&item, 1};
  return numbers_of(call, {}).far;
}

TEST(WorkList, MultipliesPairsWhereThatIsFasterThanWideningThem) {
  const auto pairs = [](bool dot, bool matrix) {
    DeviceCaps caps;
    caps.bf16_dot = dot, caps.bf16_matrix = matrix;
    return numbers_of({}, caps).bf16_pairs;
  };
  EXPECT_TRUE(pairs(true, false));
  EXPECT_FALSE(pairs(true, true));
  EXPECT_FALSE(pairs(false, false));
}

TEST(WorkList, BringsRowsNearThatAreManyOrLieApart) {
  EXPECT_FALSE(brought_near(128, 64));
  EXPECT_TRUE(brought_near(4096, 64));
  EXPECT_TRUE(brought_near(128, 3 * 12 * 64));  // q, k and v side by side
  EXPECT_FALSE(brought_near(128, 2 * 64));      // a short step
}

}  // namespace
}  // namespace stof::cpu
