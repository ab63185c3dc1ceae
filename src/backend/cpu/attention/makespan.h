// SPDX-License-Identifier: Apache-2.0
// When the last of several cores is done, if each takes the costliest piece that is left whenever it is idle.
#pragma once
#include <cstdint>
#include <span>

namespace stof::cpu {

struct Pieces {
  double cost = 0;  // of each
  std::int64_t count = 0;
};

// In the unit of the costs. Follows the schedule while there are few pieces for each core; with many of them no core
// idles for long, and the bound is the answer: total / cores, or the costliest piece. The last piece of each core is
// taken in so many equal parts.
double makespan(std::span<const Pieces> pieces, int cores, int parts);

}  // namespace stof::cpu
