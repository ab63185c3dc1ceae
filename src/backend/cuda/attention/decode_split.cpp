// SPDX-License-Identifier: Apache-2.0
// Times are as the kernels took them by themselves (bench/results/h200-decode-whole-or-cut.txt, those of d 256
// h200-decode-d256.json).
#include "src/backend/cuda/attention/decode_split.h"

#include <algorithm>
#include <cmath>

namespace stof::cuda {
namespace {

// By the CTA that leaves the last part of a task: its readers alone take all of them, four columns each. Of more tasks
// than CTAs most are whole, and the others end while tiles of the next one come.
double adding_here_us(const DecodeLoad& load, int ctas) {
  const double turns = std::ceil(static_cast<double>(load.rows) * load.head_dim / (4 * load.readers));
  return (load.tasks < ctas ? 2 : 0) + turns * (0.9 + 0.045 * decode_parts(load, ctas));
}

// By blocks of threads with four columns each, that take 16 parts at a time of as many rows as they have threads for,
// or where there are more parts, groups of them of one row. A multiprocessor has room for one beside a CTA, and the
// others wait for the end of CTAs. By bench/results/h200-decode-parts-apart.txt.
double adding_apart_us(const DecodeLoad& load, const DecodeDevice& device, int ctas) {
  constexpr double kAtOnce = 16, kBytesAUs = 1.7e6, kRoundUs = 0.9, kRoundOfRowsUs = 2.4;
  constexpr int kLeftOver = 20;  // multiprocessors that wide warpgroups leave for blocks to begin beside their CTAs
  const double parts = decode_parts(load, ctas), groups = parts > kAtOnce ? 512.0 / load.head_dim : 1;
  const double turns = 0.5 * (std::ceil(parts / groups / kAtOnce) - 1);
  const double rows = static_cast<double>(load.tasks) * load.rows, blocks = rows * groups * load.head_dim / 512;
  const double rounds = std::ceil(blocks / device.cores) - 1;
  const double bytes = parts * rows * load.head_dim * sizeof(float);
  const bool is_wide = load.head_dim > 128 && load.form.of_warpgroups;
  const double crowded = is_wide && ctas > device.cores - kLeftOver ? 1.5 : 0;
  const double least = load.form.of_warpgroups ? 1.3 : 2;
  return least + bytes / kBytesAUs + turns + rounds * (groups > 1 ? kRoundOfRowsUs : kRoundUs) + crowded +
         (load.alike ? 0 : 3.1) + (device.overlaps ? 0 : 3);
}

double adding_us(const DecodeLoad& load, const DecodeDevice& device, const DecodeSplit& split) {
  if (split.start == 0 && load.tasks >= split.ctas) return 0;  // none is cut
  return split.apart ? adding_apart_us(load, device, split.ctas) : adding_here_us(load, split.ctas);
}

// By the head dimensions of the instances.
struct ByHeadDim {
  double d64, d128, d256;
  double of(int head_dim) const { return head_dim <= 64 ? d64 : head_dim <= 128 ? d128 : d256; }
};

// What a form takes: a launch more than one of 16 rows at d 128, and a tile whose keys the L2 holds by the only CTA of
// a multiprocessor.
struct FormTimes {
  ByHeadDim begin, tile;
};
const FormTimes& times_of(const DecodeForm& form) {
  static constexpr FormTimes kSixteen{{-0.5, 0, 0}, {0.40, 0.53, 0.7}}, kTwoWarps{{0.1, 0.5, 1.7}, {0.49, 0.7, 1.83}},
      kFourWarps{{1, 2, 4}, {0.6, 1.2, 3.4}}, kWarpgroups{{0.9, 1.9, 1.6}, {0.39, 0.47, 1.13}};
  if (form.of_warpgroups) return kWarpgroups;
  return form.rows == 16 ? kSixteen : form.rows == 32 ? kTwoWarps : kFourWarps;
}
double tile_us(const DecodeLoad& load) { return times_of(load.form).tile.of(load.head_dim); }

// Of keys and values.
double bytes_of(const DecodeLoad& load) {
  constexpr double kOfTile = 64 * 2 * 2;  // times the head dimension
  return kOfTile * load.head_dim * static_cast<double>(load.tiles * load.tasks);
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

// So many tiles of each CTA. CTAs that read at the same time share what the L2 gives.
double tiles_us(const DecodeLoad& load, double tiles, double ctas, double slower = 1) {
  constexpr double kShareUs = 0.0055;  // of a tile at d 128 for each CTA
  return tiles * std::max(slower * tile_us(load), kShareUs * load.head_dim / 128 * ctas);
}

// As many CTAs for each task as there may be, or fewer: of up to `most`, those to take where another launch adds up the
// parts, and what tiles and adding take then. Fewer parts are less to add up.
struct Apart {
  int ctas;
  double us;
};
Apart cut_apart(const DecodeLoad& load, const DecodeDevice& device, int most) {
  const auto tasks = static_cast<int>(load.tasks);
  const auto cut = [&](int ctas) {
    const double tiles = std::ceil(static_cast<double>(load.tiles) * tasks / ctas);
    return Apart{ctas, tiles_us(load, tiles, ctas) + adding_apart_us(load, device, ctas)};
  };
  Apart best = cut(most);
  constexpr double kMostBytes = 40e6;  // more come from memory, which needs all that ask for it
  constexpr int kFewRows = 16;         // of fewer, and several tasks, not measured
  if (bytes_of(load) > kMostBytes || (load.rows < kFewRows && tasks > 1)) return best;
  for (int ctas = most - tasks; ctas > tasks; ctas -= tasks)
    if (const Apart fewer = cut(ctas); fewer.us < best.us) best = fewer;
  return best;
}

// Whether tasks are so short that to cut them takes longer.
bool better_whole(const DecodeLoad& load, const DecodeDevice& device) {
  if (load.tasks > device.cores) return false;
  const auto tiles = static_cast<double>(load.tiles), tasks = static_cast<double>(load.tasks);
  const double parts = std::min(tiles, device.cores / tasks);  // not always as many of each task
  const double cut = tiles_us(load, std::ceil(tiles / parts), tasks * parts);
  const auto even = static_cast<int>(load.tasks * std::min<std::int64_t>(device.cores / load.tasks, load.tiles));
  double us = cut + std::min(adding_here_us(load, device.cores), adding_apart_us(load, device, device.cores));
  if (even > load.tasks) us = std::min(us, cut_apart(load, device, even).us);
  return tiles_us(load, tiles, tasks) <= us;
}

// Whether so few tiles that two CTAs of a multiprocessor do not get in each other's way: then those of the next launch
// can begin before these end.
bool are_few_tiles(const DecodeLoad& load, const DecodeDevice& device) {
  return device.ctas > 1 && load.form.rows == 16 && load.tiles <= (load.head_dim <= 64 ? 8 : 2);
}

// Of more tasks than multiprocessors: a CTA each, two of a multiprocessor (bench/results/h200-decode-two-ctas.txt).
constexpr double kSlower = 1.45;  // a tile of one of the two
bool better_by_twos(const DecodeLoad& load, const DecodeDevice& device) {
  constexpr double kMostBytes = 32e6;  // what the L2 keeps from one launch to the next
  constexpr double kBeginUs = 4;       // of a CTA that has parts of two tasks
  if (load.tasks <= device.cores || load.tasks > std::int64_t{device.ctas} * device.cores) return false;
  if (bytes_of(load) > kMostBytes) return false;
  const auto tiles = static_cast<double>(load.tiles), tasks = static_cast<double>(load.tasks);
  return tiles_us(load, tiles, tasks, kSlower) <=
         tiles_us(load, std::ceil(tiles * tasks / device.cores), device.cores) + kBeginUs;
}

}  // namespace

double decode_parts(const DecodeLoad& load, int ctas) {
  const bool even = load.alike && ctas % load.tasks == 0;  // none has a part of two
  return std::min(static_cast<double>(load.tiles),
                  (even ? 0 : 1) + static_cast<double>(ctas) / static_cast<double>(load.tasks));
}

DecodeDevice decode_device(const DeviceCaps& caps, const DecodeInstance& instance, const DecodeForm& form) {
  constexpr int kHopper = 90;
  return {
      .cores = caps.cores, .ctas = form.of_warpgroups ? 1 : ctas_of(instance, caps), .overlaps = caps.arch >= kHopper};
}

DecodeSplit split_decode(const DecodeLoad& load, const DecodeDevice& device) {
  constexpr int kLongTiles = 16;  // of a multiprocessor
  if (load.alike && better_whole(load, device))
    return {static_cast<int>(load.tasks), 0, false, !are_few_tiles(load, device)};
  if (load.alike && better_by_twos(load, device)) return {static_cast<int>(load.tasks), 0, false, false};
  if (const int ctas = load.alike ? even_ctas(load, device) : 0; ctas > 0) {
    const bool apart = load.tasks < ctas && adding_here_us(load, ctas) > adding_apart_us(load, device, ctas);
    return {apart ? cut_apart(load, device, ctas).ctas : ctas, 0, apart, true};
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

double decode_bytes_us(const DecodeForm& form, int head_dim, int ctas) {
  constexpr double kMost = 8.4e4, kOfTile = 1.12 * 64 * 2 * 2;  // bytes; the latter times the head dimension
  const double us = times_of(form).tile.of(head_dim);
  return std::min(kMost, kOfTile * head_dim * (ctas > 1 ? ctas / kSlower : 1) / us);
}

DecodeSplit split_beside(const DecodeLoad& load, int places) {
  return {.ctas = static_cast<int>(std::min<std::int64_t>(std::max(places, 1), load.tasks * load.tiles)),
          .start = 512 / load.head_dim,
          .apart = false,
          .alone = false};
}

DecodeTimes decode_times(const DecodeLoad& load, const DecodeDevice& device) {
  const DecodeSplit split = split_decode(load, device);
  const double tiles = std::ceil(static_cast<double>(load.tasks * load.tiles) / split.ctas);
  const bool twos = load.alike && better_by_twos(load, device);
  return {.begin = times_of(load.form).begin.of(load.head_dim),
          .tiles = twos ? tiles_us(load, tiles, split.ctas, kSlower) : tiles * tile_us(load),
          .adding = adding_us(load, device, split)};
}

}  // namespace stof::cuda
