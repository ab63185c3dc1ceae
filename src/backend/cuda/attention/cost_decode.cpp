// SPDX-License-Identifier: Apache-2.0
// What decode_attention is predicted to take: keys, by the tiles of the split that the launch will have, and rows.
#include <algorithm>
#include <cmath>
#include <vector>

#include "src/backend/cuda/attention/cost_terms.h"
#include "src/backend/cuda/attention/decode_split.h"

namespace stof::cuda {
namespace {

// Of all measured heads. Few rows may lie in two row blocks of the grid, which see nearly the same keys: they are read
// once.
double decoded_tiles(const AttentionProblem& problem) {
  const MaskExtent& extent = problem.stats.extent;
  double row_blocks = 0, tiles = 0;
  std::vector<BlockStats::Bin> bins = stats_of(problem, 1)->row_blocks;
  for (const BlockStats::Bin& bin : bins) row_blocks += static_cast<double>(bin.count);
  double left = std::min(row_blocks, static_cast<double>(extent.batch * extent.heads));
  std::sort(bins.begin(), bins.end(),
            [](const auto& a, const auto& b) { return a.full + a.partial > b.full + b.partial; });
  for (const BlockStats::Bin& bin : bins) {
    const double taken = std::min(left, static_cast<double>(bin.count));
    tiles += taken * (bin.full + bin.partial), left -= taken;
  }
  return tiles;
}

}  // namespace

// Rows cost what they take besides their keys: residue classes of 16 positions and one tile of keys, 10,240 tasks, took
// about 500 us of causal & (window(1024) | strided(1024)), (1,40,16384,80) with 10 key heads, on an H100
// (bench/results/h100-attention-drawn-3.json, less the other plan and the sum as predicted). Tiles and what comes from
// the cache get in each other's way by as much as makes most of h200-decode-drawn-1.json right.
double predict_decode(const AttentionProblem& problem, const Pricing& pricing, const DecodeInstance& instance) {
  constexpr double kTileKeys = 64, kRowUs = 0.2, kOverlap = 0.25;
  const AttentionShape& s = problem.shape;
  const DecodeCosts& costs = pricing.table.decode;
  const std::int64_t rows = s.heads / s.kv_heads * s.queries;
  const std::span<const DecodeForm> forms = decode_forms(instance, pricing.caps.arch);
  const DecodeForm& form = forms[form_for(forms, rows)];
  const std::int64_t chunks = ceil_div(rows, std::int64_t{forms.back().rows}), tasks = s.batch * s.kv_heads;
  // Heads of a key head share tiles, up to so many rows at a time.
  const double tiles = decoded_tiles(problem) * items_per_measured(problem) * static_cast<double>(s.kv_heads) /
                       static_cast<double>(s.heads);
  const DecodeTimes times =
      decode_times({.tasks = tasks * chunks,
                    .tiles = std::max<std::int64_t>(1, std::llround(tiles / static_cast<double>(tasks))),
                    .rows = static_cast<int>(ceil_div(rows, chunks)),
                    .form = form,
                    .readers = readers_of(form, instance),
                    .head_dim = instance.head_dim,
                    .alike = true,
                    .small_pages = false},
                   decode_device(pricing.caps, instance, form));
  const double bytes = tiles * kTileKeys * 2 * static_cast<double>(s.head_dim) * static_cast<double>(size_of(s.dtype));
  const double of_rows = kRowUs * static_cast<double>(s.batch * s.heads * s.queries) /
                         static_cast<double>(pricing.caps.cores * instance.ctas);
  const double cached = 1e-6 * bytes * static_cast<double>(chunks) * costs[DecodeTerm::cached];
  const double of_keys = bytes < kCacheBytes
                             ? together(times.tiles, cached, kOverlap)
                             : std::max({times.tiles, cached, 1e-6 * bytes * costs[DecodeTerm::memory]});
  return costs[DecodeTerm::launch] + times.begin + std::max(of_keys, of_rows) + times.adding;
}

}  // namespace stof::cuda
