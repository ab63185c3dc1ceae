// SPDX-License-Identifier: Apache-2.0
// A table's layout allows what the table and its limit allow, pair by pair.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/layout/pack.h"
#include "tests/expect_error.h"
#include "tests/layout/random_table.h"

namespace stof {
namespace {

void expect_packed(unsigned seed) {
  const auto [table, extent] = random_form(seed);
  const Mask limit = parse(kTableLimits[seed / 4 % std::size(kTableLimits)]);
  SCOPED_TRACE(testing::Message() << "seed " << seed << " " << limit.text());
  const RandomTable random(table, extent, seed);
  const std::vector<std::byte>& bytes = random.bytes();
  const BoundMask bound(limit, extent);
  const TableForm form = form_of(table, bound, 1);
  TableStatus status{-1, -1, -1};
  TableContents contents = random.contents(bytes.data());
  contents.status = &status;
  const BlockLayout layout = pack_table(form, contents, bound);
  validate(layout);
  const Tensor got = unpack(layout), dense = random.dense();
  const std::int64_t pairs = extent.queries * extent.keys;
  for (std::int64_t slice = 0; slice < extent.batch * extent.heads; ++slice) {
    const auto* of_group = got.as<std::uint8_t>() + layout.group_of[static_cast<std::size_t>(slice)] * pairs;
    const int group = bound.group_of(slice / extent.heads, slice % extent.heads);
    for (std::int64_t i = 0; i < pairs; ++i)
      ASSERT_EQ(of_group[i] != 0,
                dense.as<bool>()[slice * pairs + i] && bound.allows(group, i / extent.keys, i % extent.keys))
          << "slice " << slice << " row " << i / extent.keys << " key " << i % extent.keys;
  }
  std::int64_t most = 0;
  for (std::size_t i = 0; i + 1 < layout.row_begin.size(); ++i)
    most = std::max(most, layout.row_begin[i + 1] - layout.row_begin[i]);
  EXPECT_EQ(status.most_tiles, most);
  EXPECT_EQ(status.dropped_row_blocks, 0);
  EXPECT_EQ(status.ignored_entries, random.ignored());
}

TEST(PackTable, AllowsWhatTableAndLimitAllow) {
  for (unsigned seed = 0; seed < 120 && !testing::Test::HasFatalFailure(); ++seed) expect_packed(seed);
}

TEST(PackTable, CountsWhatItIgnores) {
  const std::int32_t lists[2][4] = {{0, 2, -2, 0}, {-1, 1 << 30, 1, -1}};
  const BoundMask limit(all(), {.queries = 256, .keys = 128});
  const TableForm form = form_of({.block_q = 128, .width = 4}, limit, 1);
  TableStatus status{};
  const BlockLayout layout = pack_table(form, {.data = lists, .row_stride = 4, .status = &status}, limit);
  EXPECT_EQ(status.ignored_entries, 3) << "2, -2 and 2^30, each once though two row blocks have the list";
  EXPECT_EQ(layout.row_begin, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

TEST(PackTable, CountsWhatItIgnoresOnceUnderSeveralLimits) {
  const std::int32_t list = 77;
  for (const char* text : {"all", "causal", "heads(0: causal, *: all)", "heads(0: causal, 1: window(3), *: all)",
                           "batch(0: causal, *: all)"}) {
    const BoundMask limit(parse(text), {.queries = 64, .keys = 128, .batch = 2, .heads = 4});
    TableStatus status{};
    pack_table(form_of({.block_q = 64, .width = 1}, limit, 4), {.data = &list, .status = &status}, limit);
    EXPECT_EQ(status.ignored_entries, 1) << text;
  }
}

// One block of 2^20 x 2^20 is 2^28 tiles.
TEST(PackTable, StopsAtTheMemoryItMayTake) {
  constexpr std::int64_t kSide = std::int64_t{1} << 20;
  const bool named = true;
  const BoundMask limit(all(), {.queries = kSide, .keys = kSide});
  const TableForm form = form_of({.kind = TableKind::blocks, .block_q = kSide, .block_kv = kSide}, limit, 1);
  EXPECT_ERROR(pack_table(form, {.data = &named}, limit, 1 << 20), ErrorKind::unsupported,
               "the layout of the table takes more than 1048576 bytes; use a table of fewer blocks");
}

TEST(TableForm, SharesWhatIsTheSame) {
  const BoundMask limit(parse("heads(0: causal, *: all)"), {.queries = 128, .keys = 128, .batch = 2, .heads = 4});
  const TableForm form = form_of({.batch = 2, .heads = 2, .width = 3}, limit, 2);
  EXPECT_EQ(form.group_of, (std::vector<int>{0, 1, 2, 2, 3, 4, 5, 5}));
  EXPECT_EQ(form.most_tiles, 2) << "of 2 there are";
  EXPECT_EQ(form_of({.kind = TableKind::bits, .batch = 2, .heads = 1, .capacity = 1}, limit, 2).most_tiles, 1);
}

TEST(TableForm, SaysWhatItTakes) {
  const BoundMask limit(all(), {.queries = 100, .keys = 200, .batch = 3, .heads = 8});
  const auto form = [&](const MaskTable& table) { return form_of(table, limit, 2); };
  constexpr auto kInvalid = ErrorKind::invalid_argument;
  EXPECT_ERROR(form({.batch = 2, .width = 1}), kInvalid, "table: batch = 2; accepted here: 1, 3");
  EXPECT_ERROR(form({.heads = 4, .width = 1}), kInvalid, "table: heads = 4; accepted here: 1, 2, 8");
  EXPECT_ERROR(form({.block_q = 32, .width = 1}), kInvalid,
               "table: block_q = 32; accepted: multiples of 64 up to 1048576");
  EXPECT_ERROR(form({.block_kv = 100, .width = 1}), kInvalid,
               "table: block_kv = 100; accepted: multiples of 64 up to 1048576");
  EXPECT_ERROR(form({}), kInvalid, "table: width = 0; accepted: 1..1048576");
  EXPECT_ERROR(form({.width = 1, .capacity = -1}), kInvalid, "table: capacity = -1; accepted: 0..1073741824");
}

TEST(TableForm, SaysWhatContentsItTakes) {
  const BoundMask limit(all(), {.queries = 100, .keys = 200});
  const TableForm lists = form_of({.width = 1}, limit, 1);
  alignas(8) std::int32_t place[2] = {};
  const auto* const odd = reinterpret_cast<const std::byte*>(place) + 1;
  constexpr auto kInvalid = ErrorKind::invalid_argument;
  EXPECT_ERROR(check_contents(lists, {}), kInvalid, "table: data is a null pointer");
  EXPECT_ERROR(check_contents(lists, {.data = odd}), kInvalid,
               fmt::format("table: data is at {}; accepted for i32: a multiple of 4", fmt::ptr(odd)));
  EXPECT_ERROR(check_contents(lists, {.data = place, .row_stride = -1}), kInvalid,
               "table: row_stride = -1; accepted: 0..17592186044416");
  auto* const status = reinterpret_cast<TableStatus*>(reinterpret_cast<std::byte*>(place) + 2);
  EXPECT_ERROR(check_contents(lists, {.data = place, .status = status}), kInvalid,
               fmt::format("table: status is at {}; accepted: a multiple of 4", fmt::ptr(status)));
}

}  // namespace
}  // namespace stof
