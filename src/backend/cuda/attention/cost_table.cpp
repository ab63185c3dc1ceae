// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/cost_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <set>

#include "src/backend/cuda/attention/instances.h"
#include "src/base/error.h"

namespace stof::cuda {
namespace {

// What a row block costs is the same whose rows it has.
StreamInstance priced_as(StreamInstance instance) {
  instance.stacked = false;
  return instance;
}
template <class Instance>
const Instance& priced_as(const Instance& instance) {
  return instance;
}

// What stands in a name without the dtype, which costs do not depend on.
template <class Instance>
std::string key_of(const Instance& instance) {
  std::string name = name_of(priced_as(instance), DType::f16);
  const std::size_t dtype = name.find("_f16");
  STOF_CHECK(dtype != std::string::npos);
  return name.erase(dtype, 4);
}

// The number behind the n-th letter: "stream_d64_t4..." has 64 behind d.
int head_dim_of(std::string_view key) {
  const std::size_t d = key.find("_d");
  return d == std::string_view::npos ? 0 : std::atoi(std::string(key.substr(d + 2)).c_str());
}

std::string_view kernel_of(std::string_view key) { return key.substr(0, key.find('_')); }

// How far the numbers of two names of one kernel are from each other.
int distance(std::string_view a, std::string_view b) {
  const auto next = [](std::string_view& name) {
    name.remove_prefix(std::min(name.size(), name.find_first_of("0123456789")));
    const int number = std::atoi(std::string(name).c_str());
    name.remove_prefix(std::min(name.size(), name.find_first_not_of("0123456789")));
    return number;
  };
  int sum = 0;
  while (!a.empty() || !b.empty()) sum += std::abs(next(a) - next(b));
  return sum;
}

// Of the same kernel: the nearest head dimension, and of those the most alike.
const std::vector<double>& nearest(const NamedCosts& named, std::string_view key) {
  if (const auto same = named.find(key); same != named.end()) return same->second;
  const auto unlike = [&](std::string_view other) {
    return std::pair{std::abs(head_dim_of(other) - head_dim_of(key)), distance(other, key)};
  };
  const auto* best = static_cast<const NamedCosts::value_type*>(nullptr);
  for (const auto& one : named)
    if (kernel_of(one.first) == kernel_of(key) && (best == nullptr || unlike(one.first) < unlike(best->first)))
      best = &one;
  STOF_CHECK(best != nullptr);
  return best->second;
}

template <class Costs>
Costs costs_of(const NamedCosts& named, std::string_view key) {
  const std::vector<double>& values = nearest(named, key);
  Costs costs{};
  STOF_CHECK(values.size() == costs.size());
  std::copy(values.begin(), values.end(), costs.begin());
  return costs;
}

template <class Costs, class Instance>
std::vector<Costs> costs_of(const NamedCosts& named, std::span<const Instance> instances) {
  std::vector<Costs> costs;
  for (const Instance& instance : instances) costs.push_back(costs_of<Costs>(named, key_of(instance)));
  return costs;
}

struct BuiltIn {
  const char* key;
  std::vector<double> costs;
};

struct BuiltInSource {
  CostSource source;
  std::vector<BuiltIn> costs;
};

// Written by `stof calibrate --device cuda --source`.
const BuiltInSource& built_in() {
  static const BuiltInSource table =
#include "src/backend/cuda/attention/h200_costs.inc"
      ;
  return table;
}

}  // namespace

CostTable table_of(const NamedCosts& named, CostSource source) {
  return {.stream = costs_of<ListCosts>(named, stream_instances()),
          .gather = costs_of<ListCosts>(named, gather_instances()),
          .mma = costs_of<ListCosts>(named, mma_instances()),
          .band = costs_of<BandCosts>(named, band_instances()),
          .decode = costs_of<DecodeCosts>(named, "decode"),
          .source = std::move(source)};
}

NamedCosts of_instances(NamedCosts named) {
  std::set<std::string, std::less<>> there{"decode"};
  const auto add = [&there](const auto& instances) {
    for (const auto& instance : instances) there.insert(key_of(instance));
  };
  add(stream_instances());
  add(gather_instances());
  add(mma_instances());
  add(band_instances());
  std::erase_if(named, [&there](const auto& one) { return !there.contains(one.first); });
  return named;
}

const NamedCosts& built_in_named_costs() {
  static const NamedCosts named = [] {
    NamedCosts costs;
    for (const BuiltIn& one : built_in().costs) costs.emplace(one.key, one.costs);
    return costs;
  }();
  return named;
}

const CostSource& built_in_source() { return built_in().source; }

const CostsInUse& costs_for(std::string_view device) {
  static std::mutex mutex;
  static std::map<std::string, CostsInUse, std::less<>> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(device);
  if (found != known.end()) return found->second;
  return known.emplace(std::string(device), read_costs(calibration_file(), device)).first->second;
}

}  // namespace stof::cuda
