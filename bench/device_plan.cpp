// SPDX-License-Identifier: Apache-2.0
// What planning on a GPU takes: device time of an update by replaying a graph of many, every plan compared with what
// the host arranges from the same table.
//   bench_device_plan COMMIT >bench/results/COMMIT-h200-device-plan.json
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/replay.h"
#include "src/backend/cuda/attention/arrange.h"
#include "src/base/error.h"
#include "src/base/median.h"
#include "tests/backend/planned_layout.h"
#include "tests/layout/random_table.h"

namespace stof::cuda {
namespace {

struct Case {
  const char* name;
  MaskTable table;
  MaskExtent extent;
  const char* limit;
};

constexpr std::int64_t kLong = 16384;
const Case kCases[] = {
    {"16 blocks of 64", {.heads = 32, .width = 16}, {kLong, kLong, 1, 32}, "all"},
    {"16 blocks of 64", {.heads = 32, .width = 16}, {kLong, kLong, 1, 32}, "causal"},
    {"64 blocks of 64", {.heads = 32, .width = 64}, {kLong, kLong, 1, 32}, "causal"},
    {"16 blocks of 128", {.heads = 32, .block_q = 128, .block_kv = 128, .width = 16}, {kLong, kLong, 1, 32}, "causal"},
    {"32 blocks of 64", {.heads = 8, .width = 32}, {131072, 131072, 1, 8}, "causal"},
    {"table of 64 x 64", {.kind = TableKind::blocks, .heads = 32}, {kLong, kLong, 1, 32}, "causal"},
    {"bits", {.kind = TableKind::bits}, {4096, 4096, 1, 1}, "all"},
    {"bits", {.kind = TableKind::bits}, {kLong, kLong, 1, 1}, "all"},
    {"bits", {.kind = TableKind::bits}, {kLong, kLong, 1, 1}, "causal"},
    {"packed bits", {.kind = TableKind::packed}, {4096, 4096, 1, 1}, "all"},
    {"packed bits", {.kind = TableKind::packed}, {kLong, kLong, 1, 1}, "all"},
    {"packed bits", {.kind = TableKind::packed}, {kLong, kLong, 1, 1}, "causal"},
    {"packed bits", {.kind = TableKind::packed, .heads = 32}, {4096, 4096, 1, 32}, "causal"},
};

constexpr int kUpdates = 20, kReplays = 15;

// Microseconds of one update: median and least of the replays.
std::pair<double, double> time(const Gpu& gpu, const TablePlanner& planner, TableContents contents) {
  const std::vector<double> times = replay_us(gpu, {.count = kReplays}, [&](StreamHandle stream) {
    contents.stream = stream;
    for (int i = 0; i < kUpdates; ++i) planner.plan(contents);
  });
  return {median_of(times) / kUpdates, times.front() / kUpdates};
}

nlohmann::ordered_json measure(const Gpu& gpu, const Case& the) {
  const BoundMask limit(parse(the.limit), the.extent);
  const TableForm form = form_of(the.table, limit, the.extent.heads);
  const RandomTable random(the.table, the.extent, 1, 0);
  const std::vector<std::byte>& bytes = random.bytes();
  const DeviceMemory memory = to_device<std::byte>(gpu, bytes), status(gpu, sizeof(TableStatus));
  const TablePlanner planner(gpu, form, limit);
  TableContents contents = random.contents(memory.as<void>());
  contents.status = status.as<TableStatus>();
  const auto [median, least] = time(gpu, planner, contents);
  const PlannedLayout planned(gpu, planner);
  const std::string difference =
      planned.difference(arrange_stream(pack_table(form, random.contents(bytes.data()), limit), {}));
  if (!difference.empty()) fail(ErrorKind::internal, "{} & {}: {}", the.name, the.limit, difference);
  fmt::print(stderr, "{:18} {:8} {:7} keys {:3} heads {:9} steps {:8.1f} us (least {:.1f})\n", the.name, the.limit,
             the.extent.keys, the.extent.heads, planned.steps(), median, least);
  return {{"table", the.name},           {"limit", the.limit},        {"queries", the.extent.queries},
          {"keys", the.extent.keys},     {"heads", the.extent.heads}, {"steps", planned.steps()},
          {"table_bytes", bytes.size()}, {"median_us", median},       {"least_us", least}};
}

nlohmann::ordered_json run(const char* commit) {
  const Gpu& device = gpu(0);
  nlohmann::ordered_json report{{"commit", commit},
                                {"device", device.caps.name},
                                {"updates", kUpdates},
                                {"runs", kReplays},
                                {"rows", nlohmann::ordered_json::array()}};
  for (const Case& the : kCases) report["rows"].push_back(measure(device, the));
  return report;
}

}  // namespace
}  // namespace stof::cuda

int main(int count, char** arguments) {
  if (count != 2) {
    fmt::print(stderr, "usage: bench_device_plan COMMIT\n");
    return 2;
  }
  try {
    fmt::print("{}\n", stof::cuda::run(arguments[1]).dump(1));
    return 0;
  } catch (const stof::Error& error) {
    fmt::print(stderr, "bench_device_plan: {}\n", error.what());
    return 1;
  }
}
