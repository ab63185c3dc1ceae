// SPDX-License-Identifier: Apache-2.0
// What planning costs on one core: bind, measure and pack of one head; the choice among all plans of an H200, which
// need not be here; and all of it at once, from the mask to what a kernel walks over, but for the copy to the GPU. JSON
// on stdout. The best of many runs is the cost of the work; how far the median is above it is what the rest of the
// machine was doing.
//   OMP_NUM_THREADS=1 taskset -c 1 bench_plan COMMIT > bench/results/COMMIT-cpu-plan.json
#include <fmt/format.h>
#include <malloc.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "src/attention/choose.h"
#include "src/attention/planned.h"
#include "src/base/hash.h"
#include "src/base/median.h"
#include "src/layout/pack.h"
#include "src/mask/stats.h"

namespace {

using stof::BlockSize;

constexpr BlockSize kSizes[] = {{64, 64}, {64, 128}, {128, 64}, {128, 128}};
constexpr int kRuns = 41;

// Freed lists stay with the process. By itself glibc decides that by the largest that was freed before: the order of
// the rows would.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 4 << 20);
  mallopt(M_TRIM_THRESHOLD, 8 << 20);
}

struct Timing {
  double best_us = 0, median_us = 0;
};

Timing time(const std::function<void()>& work) {
  std::vector<double> times;
  for (int run = 0; run < kRuns; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  return {.best_us = *std::min_element(times.begin(), times.end()), .median_us = stof::median_of(times)};
}

nlohmann::json json_of(const Timing& timing) { return {{"best", timing.best_us}, {"median", timing.median_us}}; }

struct WholePlan {
  std::string kernel;
  std::size_t considered = 0;  // plans
  Timing choice, whole;
};

WholePlan time_whole_plan(const stof::Mask& mask, std::int64_t length) {
  const stof::Device device = stof::open_device("cuda:h200");
  const stof::AttentionShape shape{
      .heads = 12, .kv_heads = 12, .queries = length, .keys = length, .head_dim = 64, .dtype = stof::DType::f16};
  const stof::AttentionProblem problem = stof::problem_of(stof::plain_view(mask, shape), device);
  const auto choose = [&] { return stof::choose(device.backend->attention, problem, device.caps); };
  const stof::Choice chosen = stof::choose_attention(mask, shape, device, "auto");
  return {.kernel = std::string(chosen.plan.kernel),
          .considered = chosen.considered.size(),
          .choice = time([&] { choose(); }),
          .whole = time([&] { stof::plan_attention(mask, shape, device, "auto"); })};
}

nlohmann::json time_planning(const std::string& name, const stof::Mask& mask, std::int64_t length) {
  const stof::MaskExtent extent{.queries = length, .keys = length};
  const stof::BoundMask bound(mask, extent);
  std::size_t entries = 0, bytes = 0;
  const Timing bind = time([&] { const stof::BoundMask again(mask, extent); });
  const Timing stats = time([&] { stof::measure(bound, kSizes); });
  const Timing pack = time([&] {
    const stof::BlockLayout layout = stof::pack_blocks(bound, {});
    entries = layout.entries.size();
    bytes = layout.bytes();
  });
  const WholePlan plan = time_whole_plan(mask, length);
  fmt::print(stderr,
             "{:26} {:6}  bind {:4.0f} us  stats {:6.0f} us  pack {:6.0f} us (median {:6.0f})  {:6} entries  "
             "choice of {:3} {:5.0f} us  whole plan {:6.0f} us (median {:6.0f})\n",
             name, length, bind.best_us, stats.best_us, pack.best_us, pack.median_us, entries, plan.considered,
             plan.choice.best_us, plan.whole.best_us, plan.whole.median_us);
  return {{"mask", name},
          {"length", length},
          {"bind_us", json_of(bind)},
          {"stats_us", json_of(stats)},
          {"pack_us", json_of(pack)},
          {"choice_us", json_of(plan.choice)},
          {"whole_us", json_of(plan.whole)},
          {"kernel", plan.kernel},
          {"considered", plan.considered},
          {"entries", entries},
          {"bytes", bytes}};
}

std::uint64_t random_of(std::int64_t number) {
  return stof::splitmix64(static_cast<std::uint64_t>(number) * 0x9E3779B97F4A7C15ull);
}

// A dense array of what `allows` says of (query, key).
template <class Allows>
stof::Mask array_of(std::int64_t length, const Allows& allows) {
  const stof::Tensor dense(stof::DType::boolean, {length, length});
  auto* allowed = dense.as<std::uint8_t>();
  for (std::int64_t i = 0; i < length; ++i)
    for (std::int64_t j = 0; j < length; ++j) *allowed++ = allows(i, j);
  return stof::bits(dense.view());
}

stof::Mask random_bits(std::int64_t length) {
  return array_of(length, [&](std::int64_t i, std::int64_t j) { return random_of(i * length + j) % 20 == 0; });
}

// Documents that follow each other, of `least` to twice as many tokens less one.
stof::Mask packed_documents(std::int64_t length, std::int64_t least) {
  std::vector<std::int64_t> starts;
  for (std::int64_t start = 0; start < length;
       start += least + static_cast<std::int64_t>(random_of(start) % static_cast<std::uint64_t>(least)))
    starts.push_back(start);
  return stof::causal() & stof::documents(starts);
}

// Of 100 to 1,499 tokens.
stof::Mask causal_documents(std::int64_t length) {
  std::vector<int> document;
  for (int id = 0; std::ssize(document) < length; ++id)
    document.resize(document.size() + 100 + random_of(id) % 1400, id);
  return array_of(length, [&](std::int64_t i, std::int64_t j) {
    return j <= i && document[static_cast<std::size_t>(i)] == document[static_cast<std::size_t>(j)];
  });
}

stof::Mask window_and_random_blocks(std::int64_t length) {
  return array_of(length, [&](std::int64_t i, std::int64_t j) {
    return std::abs(i - j) <= 200 || random_of(i / 64 * length + j / 64) % 40 == 0;
  });
}

// Every token sees those it descends from: the one before it, or for one of eight tokens one up to 64 further back.
stof::Mask tree(std::int64_t length) {
  std::vector<std::vector<bool>> sees;
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t back = random_of(i) % 8 == 0 ? static_cast<std::int64_t>(random_of(i + length) % 64) : 0;
    sees.push_back(i > 0 ? sees[static_cast<std::size_t>(std::max<std::int64_t>(0, i - 1 - back))]
                         : std::vector<bool>(static_cast<std::size_t>(length)));
    sees.back()[static_cast<std::size_t>(i)] = true;
  }
  return array_of(length, [&](std::int64_t i, std::int64_t j) {
    return bool{sees[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)]};
  });
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || argv[1][0] == '-') {
    fmt::print(stderr, "usage: bench_plan COMMIT\n");
    return 2;
  }
  keep_freed_memory();
  double load = 0;
  getloadavg(&load, 1);
  nlohmann::json rows = nlohmann::json::array();
  for (const char* text :
       {"causal", "window(512)", "longformer(512,512)", "bigbird(64,3,2,3,1)", "dilated(512,2)",
        "natten(128,128,13,13)", "natten(64,256,31,31)", "causal & (window(64) | strided(64))",
        "causal & where((q - k) % 3 != 1)", "causal & where(q / 64 == k / 64 | k % 64 >= 60)",
        "where(q / 100 == k / 100)", "where(q % 64 >= k % 64)", "where(q * k % 7 == 3)", "where(q - k < 128 + q / 64)",
        "where(k <= q & (k % 64 == 0 | q - k < 128 + q / 64))", "where(q * k % 1000 < 50)"})
    rows.push_back(time_planning(text, stof::parse(text), 16384));
  rows.push_back(time_planning("causal, documents of 500 up", packed_documents(16384, 500), 16384));
  rows.push_back(time_planning("causal, documents of 20 up", packed_documents(16384, 20), 16384));
  for (const char* text : {"causal & window(4096,0)", "causal & window(4096)"})
    rows.push_back(time_planning(text, stof::parse(text), 131072));
  rows.push_back(time_planning("bits, 5 % at random", random_bits(16384), 16384));
  rows.push_back(time_planning("bits, documents & causal", causal_documents(16384), 16384));
  rows.push_back(time_planning("bits, window | random blocks", window_and_random_blocks(16384), 16384));
  rows.push_back(time_planning("bits, tree", tree(16384), 16384));
  const nlohmann::json report = {
      {"commit", argv[1]}, {"processor", processor()}, {"load", load}, {"threads", 1}, {"runs", kRuns}, {"rows", rows}};
  fmt::print("{}\n", report.dump(1));
}
