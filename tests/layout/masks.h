// SPDX-License-Identifier: Apache-2.0
// Masks and extents that layouts are tried on: every shape of boundary, on edges that no block size divides.
#pragma once
#include <ostream>
#include <string>
#include <vector>

#include "src/mask/bind.h"

namespace stof {

struct LayoutCase {
  std::string mask;
  MaskExtent extent;
  friend std::ostream& operator<<(std::ostream& out, const LayoutCase& c) {
    return out << c.mask << " on " << c.extent.queries << "x" << c.extent.keys << ", " << c.extent.batch << " items, "
               << c.extent.heads << " heads";
  }
};

inline std::vector<LayoutCase> layout_cases() {
  const std::vector<std::string> masks = {"all",
                                          "none",
                                          "causal",
                                          "window(5)",
                                          "window(70,0)",
                                          "window(300,200)",
                                          "dilated(9,2)",
                                          "dilated(40,7)",
                                          "strided(3)",
                                          "global(3)",
                                          "global([1,130,200])",
                                          "sink(4) | window(16,0)",
                                          "prefix(100)",
                                          "documents([0,37,100,130])",
                                          "documents([0,64,128]) & causal",
                                          "longformer(20,10)",
                                          "bigbird(64,3,2,1,7)",
                                          "bigbird(32,3,2,3,1) & causal",
                                          "random_blocks(16,2,9)",
                                          "!window(33)",
                                          "!(causal | global(2)) & !strided(5)",
                                          "heads(0: causal, *: window(40)) & !strided(2)",
                                          "heads(0-1: window(64), 2: window(64) & all)",
                                          "batch(0: causal, 1: window(9) | sink(1))"};
  const std::vector<MaskExtent> extents = {
      {.queries = 257, .keys = 257, .batch = 2, .heads = 3}, {.queries = 131, .keys = 300, .batch = 2, .heads = 3},
      {.queries = 64, .keys = 192, .batch = 2, .heads = 3},  {.queries = 1, .keys = 205, .batch = 2, .heads = 3},
      {.queries = 205, .keys = 140, .batch = 2, .heads = 3}, {.queries = 512, .keys = 512, .batch = 2, .heads = 3}};
  std::vector<LayoutCase> cases;
  for (const std::string& mask : masks)
    for (const MaskExtent& extent : extents) cases.push_back({.mask = mask, .extent = extent});
  return cases;
}

}  // namespace stof
