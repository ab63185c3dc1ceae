// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cpu/attention/makespan.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace stof::cpu {
namespace {

constexpr std::int64_t kFollowed = 16;  // pieces for each core, up to which the schedule is followed

double followed(std::vector<Pieces> pieces, std::int64_t count, int cores, int parts) {
  std::sort(pieces.begin(), pieces.end(), [](const Pieces& a, const Pieces& b) { return a.cost > b.cost; });
  std::vector<double> busy_until(static_cast<std::size_t>(cores), 0.0);  // a heap: the first is idle first
  const auto add = [&busy_until](double cost) {
    std::pop_heap(busy_until.begin(), busy_until.end(), std::greater());
    busy_until.back() += cost;
    std::push_heap(busy_until.begin(), busy_until.end(), std::greater());
  };
  for (const Pieces& same : pieces)
    for (std::int64_t i = 0; i < same.count; ++i) {
      const int cut = --count < cores ? parts : 1;
      for (int part = 0; part < cut; ++part) add(same.cost / cut);
    }
  return *std::max_element(busy_until.begin(), busy_until.end());
}

}  // namespace

double makespan(std::span<const Pieces> pieces, int cores, int parts) {
  double total = 0, costliest = 0;
  std::int64_t count = 0;
  for (const Pieces& same : pieces) {
    total += same.cost * static_cast<double>(same.count);
    costliest = std::max(costliest, same.cost);
    count += same.count;
  }
  if (count <= kFollowed * cores) return followed({pieces.begin(), pieces.end()}, count, std::max(1, cores), parts);
  return std::max(total / cores, costliest);
}

}  // namespace stof::cpu
