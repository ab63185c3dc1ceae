// SPDX-License-Identifier: Apache-2.0
// What planning costs on one core: bind, measure and pack, each the median of several runs, as JSON on stdout.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "src/base/hash.h"
#include "src/layout/pack.h"
#include "src/mask/stats.h"

namespace {

using stof::BlockSize;

constexpr BlockSize kSizes[] = {{64, 64}, {64, 128}, {128, 64}, {128, 128}};
constexpr int kRuns = 9;

double median_us(const std::function<void()>& work) {
  std::vector<double> times;
  for (int run = 0; run < kRuns; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return times[kRuns / 2];
}

nlohmann::json time_planning(const stof::Mask& mask, std::int64_t length) {
  const stof::MaskExtent extent{.queries = length, .keys = length};
  const stof::BoundMask bound(mask, extent);
  std::size_t entries = 0, bytes = 0;
  const double bind = median_us([&] { const stof::BoundMask again(mask, extent); });
  const double stats = median_us([&] { stof::measure(bound, kSizes); });
  const double pack = median_us([&] {
    const stof::BlockLayout layout = stof::pack_blocks(bound, {});
    entries = layout.entries.size();
    bytes = layout.bytes();
  });
  return {{"mask", mask.text().substr(0, 60)},
          {"length", length},
          {"bind_us", bind},
          {"stats_us", stats},
          {"pack_us", pack},
          {"entries", entries},
          {"bytes", bytes}};
}

// A dense array with 5 % of its elements allowed at random.
stof::Mask random_bits(std::int64_t length) {
  const stof::Tensor dense(stof::DType::boolean, {length, length});
  auto* allowed = dense.as<std::uint8_t>();
  for (std::int64_t i = 0; i < length * length; ++i)
    allowed[i] = stof::splitmix64(static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15ull) % 20 == 0;
  return stof::bits(dense.view());
}

}  // namespace

int main() {
  nlohmann::json rows = nlohmann::json::array();
  for (const char* text : {"causal", "window(512)", "longformer(512,512)", "bigbird(64,3,2,3,1)", "dilated(512,2)"})
    rows.push_back(time_planning(stof::parse(text), 16384));
  rows.push_back(time_planning(stof::parse("causal & window(4096,0)"), 131072));
  rows.push_back(time_planning(stof::parse("causal & window(4096)"), 131072));
  rows.push_back(time_planning(random_bits(16384), 16384));
  for (const auto& row : rows)
    fmt::print(stderr, "{:28} {:7} bind {:8.0f} us  stats {:8.0f} us  pack {:8.0f} us  {} entries\n",
               row["mask"].get<std::string>(), row["length"].get<int>(), row["bind_us"].get<double>(),
               row["stats_us"].get<double>(), row["pack_us"].get<double>(), row["entries"].get<std::size_t>());
  fmt::print("{}\n", nlohmann::json{{"threads", 1}, {"rows", rows}}.dump(1));
}
