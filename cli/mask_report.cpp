// SPDX-License-Identifier: Apache-2.0
#include "cli/mask_report.h"

#include <fmt/format.h>

#include <cmath>

#include "cli/size_text.h"
#include "cli/table.h"
#include "src/base/counted.h"

namespace stof::cli {
namespace {

constexpr double kExactIntegers = 9007199254740992.0;  // 2^53

// Pairs computed for each allowed one when whole blocks are; nothing when none is allowed.
std::optional<double> waste(const BlockStats& blocks) {
  if (blocks.touched_density == 0) return std::nullopt;
  return 1 / blocks.touched_density;
}

double mean_row_block(const BlockStats& blocks) {
  double touched = 0, count = 0;
  for (const BlockStats::Bin& bin : blocks.row_blocks) {
    touched += (bin.full + bin.partial) * static_cast<double>(bin.count);
    count += static_cast<double>(bin.count);
  }
  return count > 0 ? touched / count : 0;
}

Json json_of(const BlockStats& blocks) {
  const std::optional<double> wasted = waste(blocks);
  return {{"block_q", blocks.block_q},
          {"block_kv", blocks.block_kv},
          {"empty", blocks.empty},
          {"partial", blocks.partial},
          {"full", blocks.full},
          {"waste", wasted ? Json(*wasted) : Json(nullptr)},
          {"heaviest_row_block", blocks.heaviest},
          {"mean_row_block", mean_row_block(blocks)}};
}

// As an integer where a double is one.
Json count(double value) {
  if (value <= kExactIntegers) return static_cast<std::int64_t>(value);
  return value;
}

Json json_of(const BlockFormat& format, const std::optional<LayoutSize>& layout) {
  if (!layout) return nullptr;
  return {{"block_q", format.block_q},
          {"block_kv", format.block_kv},
          {"entries", layout->entries},
          {"bitmaps", layout->bitmaps},
          {"bytes", layout->bytes}};
}

std::string with_commas(double value) {
  const std::string digits = fmt::format("{:.0f}", value);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

// What rounds to nothing or to everything without being it says so.
std::string percent(double share) {
  if (share > 0 && share < 0.00005) return "< 0.01 %";
  if (share < 1 && share >= 0.99995) return "> 99.99 %";
  return fmt::format("{:.2f} %", 100 * share);
}

std::string table_of(const MaskStats& stats) {
  Table table({"blocks", "empty", "partial", "full", "waste", "heaviest row-block", "mean"});
  for (const BlockStats& blocks : stats.blocks) {
    const std::optional<double> wasted = waste(blocks);
    table.add({fmt::format("{} x {}", blocks.block_q, blocks.block_kv), percent(blocks.empty), percent(blocks.partial),
               percent(blocks.full), wasted ? fmt::format("{:.2f}", *wasted) : "-", fmt::format("{}", blocks.heaviest),
               fmt::format("{:.1f}", mean_row_block(blocks))});
  }
  return table.text();
}

std::string layout_text(const MaskReport& report) {
  const std::string blocks = fmt::format("{} x {}", report.format.block_q, report.format.block_kv);
  if (!report.layout) return blocks + ": not packed, it could take more than 4 GiB";
  return fmt::format("{}: {}, {}, {}", blocks,
                     counted(static_cast<std::int64_t>(report.layout->entries), "entry", "entries"),
                     counted(static_cast<std::int64_t>(report.layout->bitmaps), "distinct bitmap", "distinct bitmaps"),
                     size_text(static_cast<double>(report.layout->bytes)));
}

}  // namespace

Json json_of(const MaskReport& report) {
  const MaskStats& stats = report.stats;
  Json blocks = Json::array();
  for (const BlockStats& size : stats.blocks) blocks.push_back(json_of(size));
  return {{"mask", report.mask},
          {"fingerprint", report.fingerprint},
          {"queries", stats.extent.queries},
          {"keys", stats.extent.keys},
          {"batch", stats.extent.batch},
          {"heads", stats.extent.heads},
          {"distinct", stats.groups},
          {"density", stats.density},
          {"allowed_pairs", count(stats.allowed_pairs)},
          {"empty_rows", stats.empty_rows},
          {"blocks", std::move(blocks)},
          {"layout", json_of(report.format, report.layout)},
          {"bind_us", report.bind_us},
          {"stats_us", report.stats_us},
          {"pack_us", report.layout ? Json(report.pack_us) : Json(nullptr)},
          {"plan_us", report.plan_us()}};
}

std::string text_of(const MaskReport& report) {
  const MaskStats& stats = report.stats;
  const MaskExtent& extent = stats.extent;
  const double pairs = static_cast<double>(extent.queries) * static_cast<double>(extent.keys) *
                       static_cast<double>(extent.batch * extent.heads);
  std::string text;
  const auto line = [&](std::string_view label, std::string_view value) {
    text += fmt::format("{:<12}{}\n", label, value);
  };
  line("mask", report.mask);
  line("extent",
       fmt::format("{} x {}, {}, {}; {}", counted(extent.queries, "query", "queries"),
                   counted(extent.keys, "key", "keys"), counted(extent.batch, "item", "items"),
                   counted(extent.heads, "head", "heads"), counted(stats.groups, "distinct mask", "distinct masks")));
  line("density", fmt::format("{}: {} of {} pairs allowed", percent(stats.density), with_commas(stats.allowed_pairs),
                              with_commas(pairs)));
  line("empty rows", with_commas(static_cast<double>(stats.empty_rows)));
  line("layout", layout_text(report));
  line("planned in",
       fmt::format("{:.0f} us: statistics {:.0f}, packing {:.0f}", report.plan_us(), report.stats_us, report.pack_us));
  return text + "\nwaste: pairs computed for each allowed one; row-blocks count their touched blocks\n" +
         table_of(stats);
}

}  // namespace stof::cli
