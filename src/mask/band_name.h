// SPDX-License-Identifier: Apache-2.0
// What makes bands of rows alike: of as many rows and with one name, they allow the same keys, each counted from its
// own origin.
#pragma once
#include <cstdint>

namespace stof {

struct BandName {
  std::int64_t place = 0;   // in the grid of a natten(), or in a period
  std::int64_t behind = 0;  // of the first position, behind the origin, where position - key counts beside a grid
  friend bool operator==(const BandName&, const BandName&) = default;
};

struct NamedBand {
  BandName name;
  std::int64_t origin = 0;  // a key, or where there would be one
};

}  // namespace stof
