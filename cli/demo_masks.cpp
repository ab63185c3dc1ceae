// SPDX-License-Identifier: Apache-2.0
// What masks buy on long input: a whole encoder, dense and under three masks of the literature.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "cli/demo.h"
#include "cli/progress.h"
#include "cli/random_model.h"
#include "cli/table.h"
#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/mask/stats.h"

namespace stof::cli {
namespace {

constexpr std::array<std::int64_t, 4> kLengths = {1024, 2048, 4096, 8192};
constexpr std::array<const char*, 4> kMasks = {"all", "window(128)", "longformer(128,16)", "bigbird(64,3,2,3,1)"};
// A length is left out when four times the time of the one before it would pass this: the demo stays short on slow
// machines.
constexpr double kSecondsPerMask = 75;
// The smallest of several runs counts, as many as fit.
constexpr double kSecondsPerTime = 3;
constexpr int kMostRuns = 3;

using Times = std::array<std::optional<double>, kLengths.size()>;

TokenBatch random_tokens(std::int64_t count, std::int64_t vocabulary) {
  TokenBatch batch;
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<std::int32_t>(splitmix64(i) % static_cast<std::uint64_t>(vocabulary));
  batch.add(ids);
  return batch;
}

double time_run(const Session& session, const TokenBatch& batch) {
  const Stopwatch watch;
  const Tensor hidden = session.run(batch);
  const double seconds = watch.seconds();
  const float* values = hidden.as<float>();
  if (!std::all_of(values, values + hidden.size(), [](float value) { return std::isfinite(value); }))
    fail(ErrorKind::internal, "bug in STOF: a hidden state of {} tokens is not finite", batch.ids.size());
  return seconds;
}

double smallest_time(const Model& model, const Mask& mask, std::int64_t length, const std::string& device) {
  const Session session(model, {.device = device, .mask = mask});
  session.run(random_tokens(64, model.config.vocab_size));  // touches every weight once
  const TokenBatch tokens = random_tokens(length, model.config.vocab_size);
  const Stopwatch total;
  double smallest = time_run(session, tokens);
  for (int run = 1; run < kMostRuns && total.seconds() + smallest < kSecondsPerTime; ++run)
    smallest = std::min(smallest, time_run(session, tokens));
  return smallest;
}

// The masks of one length directly after another: whatever else the machine does falls on all of them.
std::array<Times, kMasks.size()> time_masks(const Model& model, const std::string& device, Progress& progress) {
  std::array<Times, kMasks.size()> times;
  std::array<double, kMasks.size()> used{};
  for (std::size_t length = 0; length < kLengths.size(); ++length)
    for (std::size_t mask = 0; mask < kMasks.size(); ++mask) {
      const Stopwatch watch;
      const std::optional<double> before = length == 0 ? 0 : times[mask][length - 1];
      if (before && used[mask] + 4 * *before < kSecondsPerMask)
        times[mask][length] = smallest_time(model, parse(kMasks[mask]), kLengths[length], device);
      used[mask] += watch.seconds();
      progress.advance(1);
    }
  return times;
}

double touched_tiles(const Mask& mask, std::int64_t length) {
  constexpr std::array<BlockSize, 1> kTile = {BlockSize{64, 64}};
  const BlockStats tiles = measure(BoundMask(mask, {.queries = length, .keys = length}), kTile).blocks.at(0);
  return tiles.partial + tiles.full;
}

std::vector<std::string> table_row(std::size_t length, std::size_t mask,
                                   const std::array<Times, kMasks.size()>& times) {
  const std::optional<double> time = times[mask][length], dense = times[0][length];
  return {fmt::format("{}", kLengths[length]), mask == 0 ? "dense" : kMasks[mask],
          fmt::format("{:.1f} %", 100 * touched_tiles(parse(kMasks[mask]), kLengths[length])),
          time ? fmt::format("{:.2f} s", *time) : "left out",
          time && dense ? fmt::format("{:.2f}", *dense / *time) : "-"};
}

}  // namespace

void show_masks(const std::string& device) {
  const Model model = random_bert_base(kLengths.back(), 1);
  std::array<Times, kMasks.size()> times;
  {
    Progress progress("  measuring", static_cast<std::int64_t>(kMasks.size() * kLengths.size()));
    times = time_masks(model, device, progress);
  }
  Table table({"tokens", "mask", "touched 64x64 tiles", "time", "speed-up"});
  for (std::size_t length = 0; length < kLengths.size(); ++length)
    for (std::size_t mask = 0; mask < kMasks.size(); ++mask) table.add(table_row(length, mask, times));
  fmt::print("{}", table.text());
}

}  // namespace stof::cli
