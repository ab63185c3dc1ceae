// SPDX-License-Identifier: Apache-2.0
// Times are those of an H200, in us, as the kernels took them by themselves
// (bench/results/h200-decode-whole-or-cut.txt).
#include "src/backend/cuda/attention/decode_split.h"

#include <algorithm>
#include <cmath>

namespace stof::cuda {
namespace {

// By the CTA that leaves the last part of a task: its readers alone take all of them, four columns each.
double adding_here_us(const DecodeLoad& load, int ctas) {
  const double turns = std::ceil(static_cast<double>(load.rows) * load.head_dim / (4 * load.readers));
  return 2 + turns * (0.9 + 0.045 * decode_parts(load, ctas));
}

// The more rows, the more parts are left and read; of nearly as many tasks as half of the CTAs, by more blocks than
// there is room for.
double adding_apart_us(const DecodeLoad& load, const DecodeDevice& device, int ctas) {
  const double crowded =
      2.2 * static_cast<double>(load.tasks) >= ctas ? 0.09 * std::max(1.0, load.head_dim / 128.0) : 0;
  return 2.4 + load.rows * (0.065 + crowded) + (load.alike ? 0 : 3.1) + (device.overlaps ? 0 : 3);
}

// As many CTAs for each task, or tasks for each CTA, as there can be: then none has parts of two tasks, and all end at
// the same time. 0: too many multiprocessors would have none.
int even_ctas(const DecodeLoad& load, const DecodeDevice& device) {
  constexpr double kLeastShare = 0.9;
  const std::int64_t each = (load.tasks + device.cores - 1) / device.cores;  // tasks of a CTA
  const std::int64_t ctas =
      each == 1 ? load.tasks * std::min<std::int64_t>(device.cores / load.tasks, load.tiles) : load.tasks / each;
  const bool even = each == 1 || load.tasks % each == 0;
  const bool enough = static_cast<double>(ctas) >= kLeastShare * device.cores || load.tiles * load.tasks == ctas;
  return even && enough ? static_cast<int>(ctas) : 0;
}

// Whether tasks are so short that to cut them takes longer.
bool better_whole(const DecodeLoad& load, const DecodeDevice& device) {
  if (load.tasks > device.cores) return false;
  const auto tiles = static_cast<double>(load.tiles);
  const double parts = std::min(tiles, static_cast<double>(device.cores) / static_cast<double>(load.tasks));
  const double adding = std::min(adding_here_us(load, device.cores), adding_apart_us(load, device, device.cores));
  const double tile = decode_tile_us(load.form, load.head_dim);
  return tiles * tile <= std::ceil(tiles / parts) * tile + adding;
}

}  // namespace

double decode_tile_us(const DecodeForm& form, int head_dim) {
  struct Times {
    double d64, d128, d256;
  };
  constexpr Times kSixteen{0.40, 0.53, 1.37}, kTwoWarps{0.49, 0.68, 1.83}, kFourWarps{0.6, 1.2, 3.4},
      kWarpgroups{0.48, 0.61, 1.14};
  const Times& times = form.of_warpgroups ? kWarpgroups
                       : form.rows == 16  ? kSixteen
                       : form.rows == 32  ? kTwoWarps
                                          : kFourWarps;
  return head_dim <= 64 ? times.d64 : head_dim <= 128 ? times.d128 : times.d256;
}

double decode_parts(const DecodeLoad& load, int ctas) {
  const bool even = load.alike && ctas % load.tasks == 0;  // none has a part of two
  return std::min(static_cast<double>(load.tiles),
                  (even ? 0 : 1) + static_cast<double>(ctas) / static_cast<double>(load.tasks));
}

DecodeSplit split_decode(const DecodeLoad& load, const DecodeDevice& device) {
  constexpr int kLongTiles = 16;  // of a multiprocessor
  if (load.alike && better_whole(load, device)) return {static_cast<int>(load.tasks), 0, false, true};
  if (const int ctas = load.alike ? even_ctas(load, device) : 0; ctas > 0) {
    const bool cut = load.tasks < ctas;
    return {ctas, 0, cut && adding_here_us(load, ctas) > adding_apart_us(load, device, ctas), true};
  }
  const std::int64_t tiles = load.tasks * load.tiles;
  DecodeSplit split{.ctas = static_cast<int>(std::min<std::int64_t>(device.cores, tiles)),
                    .start = 512 / load.head_dim,  // 4 us of a CTA's share of the bandwidth
                    .apart = false,
                    .alone = true};
  split.apart = adding_here_us(load, split.ctas) > adding_apart_us(load, device, split.ctas);
  // Keys of small pages come from many places, which more CTAs ask for at a time.
  if (load.small_pages && !split.apart && tiles >= kLongTiles * device.cores)
    split.ctas *= device.ctas, split.alone = false;
  return split;
}

}  // namespace stof::cuda
