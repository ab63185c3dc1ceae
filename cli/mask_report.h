// SPDX-License-Identifier: Apache-2.0
// What `stof mask` finds out about a mask, as text and as JSON.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "cli/json_output.h"
#include "src/layout/block_layout.h"
#include "src/mask/stats.h"

namespace stof::cli {

struct LayoutSize {
  std::size_t entries = 0, bitmaps = 0, bytes = 0;
};

struct MaskReport {
  std::string mask, fingerprint;
  MaskStats stats = {};
  BlockFormat format = {};                // of the layout
  std::optional<LayoutSize> layout = {};  // nothing when it would be too large to be packed for a report
  double bind_us = 0, stats_us = 0, pack_us = 0;

  double plan_us() const { return stats_us + pack_us; }
};

// Measures and packs. Short work is repeated; its time is the median.
MaskReport study(const Mask& mask, const BoundMask& bound);

Json json_of(const MaskReport& report);
std::string text_of(const MaskReport& report);

}  // namespace stof::cli
