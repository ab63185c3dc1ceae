// SPDX-License-Identifier: Apache-2.0
// How short a stretch of keys the rows of a mask get by with: what decides whether a kernel may take all of a row's
// keys at once.
#pragma once
#include <array>
#include <cstdint>

#include "src/mask/mask_bands.h"
#include "src/mask/stats.h"

namespace stof {

// [i]: so many keys, starting at a multiple of 8, that hold those of every 64-row part of a row-block of i + 1 parts,
// when part j takes them 64 j keys on. Empty where a row-block touches more than kMostBandTiles tiles of 64 keys.
struct BandWidths {
  static constexpr std::int64_t kMostBandTiles = 5;
  static constexpr std::size_t kParts = 2;
  bool measured = false;
  std::array<std::int64_t, kParts> keys = {};
  friend bool operator==(const BandWidths&, const BandWidths&) = default;
};

// `stats` of the mask, with blocks of 64 x 64 among them.
BandWidths measure_bands(const MaskBands& bands, const MaskStats& stats);

}  // namespace stof
