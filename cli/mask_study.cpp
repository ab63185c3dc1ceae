// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <vector>

#include "cli/mask_report.h"
#include "src/base/median.h"
#include "src/layout/pack.h"

namespace stof::cli {
namespace {

constexpr BlockSize kSizes[] = {{64, 64}, {64, 128}, {128, 64}, {128, 128}};
constexpr int kMostRuns = 9;
constexpr double kEnoughTime = 50e3;             // microseconds; after this no run is repeated
constexpr double kMostLayoutBytes = 1ull << 32;  // a report is no reason to fill the memory

template <class Work>
double median_us(Work&& work) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  double total = 0;
  do {
    const auto begin = Clock::now();
    work();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    total += times.back();
  } while (times.size() < kMostRuns && total < kEnoughTime);
  return median_of(std::move(times));
}

// Of the layout of each distinct head, if no two bitmaps were equal and groups were equally heavy.
double expected_bytes(const BoundMask& mask, const BlockStats& blocks) {
  const MaskExtent& extent = mask.extent();
  const double all = static_cast<double>(ceil_div(extent.queries, blocks.block_q) + 1) *
                     static_cast<double>(ceil_div(extent.keys, blocks.block_kv)) * mask.groups();
  const double bitmap = blocks.block_q * blocks.block_kv / 8.0;
  return all * ((blocks.full + blocks.partial) * sizeof(BlockEntry) + blocks.partial * bitmap);
}

}  // namespace

MaskReport study(const Mask& mask, const BoundMask& bound) {
  MaskReport report{.mask = mask.text(), .fingerprint = mask.fingerprint()};
  report.bind_us = median_us([&] { const BoundMask again(mask, bound.extent()); });
  report.stats_us = median_us([&] { report.stats = measure(bound, kSizes); });
  if (expected_bytes(bound, report.stats.blocks.front()) > kMostLayoutBytes) return report;
  report.pack_us = median_us([&] {
    const BlockLayout layout = pack_blocks(bound, report.format);
    const auto words =
        static_cast<std::size_t>(report.format.block_q) * static_cast<std::size_t>(layout.words_per_row());
    report.layout = {
        .entries = layout.entries.size(), .bitmaps = layout.bitmaps.size() / words, .bytes = layout.bytes()};
  });
  return report;
}

}  // namespace stof::cli
