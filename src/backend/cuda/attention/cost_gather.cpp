// SPDX-License-Identifier: Apache-2.0
// The gather kernel's items have no queue: each CTA's sum is decided by the order they are dealt in.
#include <cmath>

#include "src/backend/cuda/attention/cost_terms.h"

namespace stof::cuda {
namespace {

constexpr double kMostFollowed = 8;  // long items for each CTA: more even out
constexpr double kUneven = 0.25;     // of_classes

struct Item {
  double us;
  double count;  // of a slice
};

// Of one slice, the longest first, and the short ones: one unit, not a part of more.
struct Items {
  std::vector<Item> long_ones;
  double short_us = 0, short_count = 0, total_us = 0, long_count = 0, most_parts = 1;
};

struct Dealing {
  const ListCosts& costs;
  int pieces, most_units;
  double all_slices, launches;
  double ctas;
  double slices() const { return all_slices / launches; }  // of a launch
};

Items items_of(const AttentionProblem& problem, const Dealing& how) {
  struct Cut {
    double units, parts, count;
  };
  std::vector<Cut> cuts;
  double all = 0;
  for (auto bin = problem.key_pieces.row_blocks.rbegin(); bin != problem.key_pieces.row_blocks.rend(); ++bin) {
    const double units = std::max(1.0, std::ceil(static_cast<double>(bin->pieces) / how.pieces));
    const double parts = how.most_units > 0 ? std::ceil(units / how.most_units) : 1;
    const double count = static_cast<double>(bin->count) * items_per_measured(problem) / how.all_slices * parts;
    cuts.push_back({units / parts, parts, count});
    all += count * how.slices();
  }
  const double scale = load_factor(how.costs[ListTerm::alone], all, how.ctas);
  Items items;
  items.short_us = how.costs[ListTerm::item] + how.costs[ListTerm::full] * scale;
  for (const auto& [units, parts, count] : cuts) {
    const double us = items.short_us + (units - 1) * how.costs[ListTerm::partial] * scale +
                      (parts > 1 ? how.costs[ListTerm::part] : 0);
    items.total_us += us * count * how.slices();
    items.most_parts = std::max(items.most_parts, parts);
    if (units > 1 || parts > 1)
      items.long_ones.push_back({us, std::round(count)}), items.long_count += std::round(count);
    else items.short_count += count * how.slices();
  }
  return items;
}

// Long items of all slices, then the short ones; every other round backwards.
double longest_sum(const Items& items, const Dealing& how) {
  const auto ctas =
      static_cast<std::size_t>(std::clamp(items.short_count + items.long_count * how.slices(), 1.0, how.ctas));
  std::vector<double> sums(ctas, 0.0);
  std::size_t index = 0;
  const auto deal = [&](double us) {
    const std::size_t round = index / ctas, at = index % ctas;
    sums[round % 2 == 0 ? at : ctas - 1 - at] += us;
    ++index;
  };
  for (double slice = 0; slice < how.slices(); ++slice)
    for (const Item& item : items.long_ones)
      for (double i = 0; i < item.count; ++i) deal(item.us);
  double left = items.short_count;
  for (; left >= 1 && index % ctas != 0; --left) deal(items.short_us);
  const double rounds = std::floor(left / static_cast<double>(ctas));
  for (double& sum : sums) sum += rounds * items.short_us;
  if (static_cast<std::int64_t>(rounds) % 2 != 0) index += ctas;
  for (left -= rounds * static_cast<double>(ctas); left >= 1; --left) deal(items.short_us);
  return *std::max_element(sums.begin(), sums.end());
}

}  // namespace

double predict_gather(const AttentionProblem& problem, const Pricing& pricing, const GatherInstance& instance,
                      int most_units) {
  const Dealing how{.costs = cost_of(pricing.table.gather, gather_instances(), instance),
                    .pieces = instance.pieces,
                    .most_units = most_units,
                    .all_slices = slices_of(problem),
                    .launches = static_cast<double>(launches(problem, ListsOf::one_mask)),
                    .ctas = static_cast<double>(pricing.caps.cores * instance.ctas)};
  const Items items = items_of(problem, how);
  double work = items.total_us / how.ctas;
  if (items.long_count * how.slices() <= kMostFollowed * how.ctas) {
    const double share = how.costs[ListTerm::tail];
    work = share * longest_sum(items, how) + (1 - share) * work;
  }
  work += how.costs[ListTerm::merge] * (items.most_parts - 1);
  const double us =
      together(work, how.costs[ListTerm::traffic] * traffic_us(problem) / how.launches, how.costs[ListTerm::overlap]);
  return how.launches * (how.costs[ListTerm::launch] + of_classes(problem, kUneven, us));
}

}  // namespace stof::cuda
