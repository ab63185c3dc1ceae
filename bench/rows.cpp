// SPDX-License-Identifier: Apache-2.0
// Row operations of decoders and encoders on a GPU, a kernel each: device time beside what reading and writing every
// byte once would take. A result is compared with the CPU's before its time counts.
//   bench_rows COMMIT [KERNEL...] >bench/results/COMMIT-h200-rows.json
//   bench_rows --predicted [KERNEL...]: no times; needs no GPU
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/agreement.h"
#include "bench/replay.h"
#include "bench/row_problem.h"
#include "src/backend/contract.h"
#include "src/backend/cuda/driver/device.h"
#include "src/backend/cuda/driver/device_memory.h"
#include "src/base/error.h"
#include "src/tensor/half.h"

namespace stof::cuda {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kBytesOfUs = 4.0e6, kLaunchUs = 1;  // what times are predicted from: 4.0 TB/s
constexpr std::int64_t kRotatedBytes = std::int64_t{400} << 20;
// Of numbers in 16 bits that two sums in fp32 lead to: but for few, which round to the other side, the same.
constexpr double kBound = 3e-4;

std::vector<RowProblem> problems() {
  std::vector<RowProblem> all;
  const auto add = [&](RowKind kind, std::int64_t columns, std::initializer_list<std::int64_t> rows) {
    for (const std::int64_t count : rows) all.push_back({kind, count, columns});
  };
  add(RowKind::norm, 4096, {1, 8, 64, 4096});
  add(RowKind::sum_norm, 4096, {1, 8, 64, 4096});
  add(RowKind::norm, 8192, {4096});
  add(RowKind::norm, 768, {128, 512, 4096, 16384});
  for (const std::int64_t columns : {1024, 1152, 1536}) add(RowKind::norm, columns, {512, 4096});
  for (const RowKind kind : {RowKind::rotate_normed, RowKind::rotate})
    for (const std::int64_t count : {1, 8, 64, 4096}) all.push_back({kind, count, RowHeads{}.turned()});
  for (const RowHeads& heads : {RowHeads{12, 12, 64}, RowHeads{12, 12, 96}, RowHeads{8, 4, 256}})
    for (const std::int64_t count : {128, 512, 4096}) all.push_back({RowKind::rotate, count, heads.turned(), heads});
  for (const RowKind kind : {RowKind::gate, RowKind::add}) {
    add(kind, 1024, {1, 8, 64, 4096});
    add(kind, 3072, {1, 8, 64, 4096});
  }
  // Rows of 3,072 columns, as a product whose halves are paired leaves them.
  for (const std::int64_t count : {1, 8, 64, 4096}) add(RowKind::gate, kPairedColumns, {count * 3072 / kPairedColumns});
  add(RowKind::copy_from, 1536, {8});
  add(RowKind::copy_from, 32768, {256});
  add(RowKind::copy_to, 4096, {1, 8, 64, 4096});
  add(RowKind::copy_to, 512, {16384});
  return all;
}

std::vector<float> floats_of(std::span<const std::byte> stored) {
  std::vector<float> floats(stored.size() / 2);
  const auto* const halves = reinterpret_cast<const std::uint16_t*>(stored.data());
#pragma omp parallel for
  for (std::size_t i = 0; i < floats.size(); ++i) floats[i] = float_of_f16(halves[i]);
  return floats;
}

// Why a result does not count; empty where it does.
std::string wrong_in(const RowProblem& the, std::span<const std::byte> got, std::span<const std::byte> want) {
  if (is_copy(the.kind)) return std::ranges::equal(got, want) ? "" : "other bytes than the CPU copies";
  return agreement_of(floats_of(got), floats_of(want), static_cast<std::int64_t>(want.size()) / 2 / the.rows, kBound)
      .wrong;
}

// Operands of one call on a GPU.
class Buffers {
 public:
  Buffers(const Gpu& gpu, const RowValues& values)
      : x_(to_device<std::byte>(gpu, values.x)),
        y_(to_device<std::byte>(gpu, values.y)),
        out_(to_device<std::byte>(gpu, values.out)),
        floats_(to_device<float>(gpu, values.floats)),
        places_(to_device<std::int32_t>(gpu, values.places)) {}
  RowOperands operands(bool back) const {
    return {.x = (back ? out_ : x_).as<void>(),
            .y = y_.as<void>(),
            .out = (back ? x_ : out_).as<void>(),
            .floats = floats_.as<float>(),
            .places = {places_.as<std::int32_t>(), places_.bytes() / sizeof(std::int32_t)}};
  }
  const DeviceMemory& result() const { return out_.bytes() == 0 ? x_ : out_; }

 private:
  DeviceMemory x_, y_, out_, floats_, places_;
};

class Rows {
 public:
  Rows(const Device& device, const RowProblem& problem)
      : device_(device), gpu_(gpu_of(device)), the_(problem), values_(values_of(problem)) {
    const std::int64_t bytes = moved_bytes(problem), count = std::clamp((kRotatedBytes + bytes - 1) / bytes,
                                                                        std::int64_t{2}, std::int64_t{kLaunches});
    for (std::int64_t i = 0; i < count; ++i) buffers_.emplace_back(gpu_, values_);
    if (bytes * count < kRotatedBytes) other_ = DeviceMemory(gpu_, static_cast<std::size_t>(kRotatedBytes / 4));
  }

  // Ends with an error where a result is not the CPU's.
  void check() {
    const Stream stream(gpu_);
    launch(stream.handle(), {.buffers = 0, .back = false});
    stream.synchronize();
    std::vector<std::byte> got(buffers_[0].result().bytes());
    copy_out(gpu_, got, buffers_[0].result().address());
    const Device host = open_device("cpu");
    call(the_, host.backend->rows, {.device = &host}, values_.operands());
    const std::string wrong = wrong_in(the_, got, values_.result());
    if (!wrong.empty())
      fail(ErrorKind::internal, "bug in STOF: {} of {} x {}: {}", kernel_of(the_), the_.rows, row_of(the_), wrong);
  }

  Json times() {
    Json times;
    for (const Reuse& reuse : kReuses) {
      if (reuse.to_and_fro && !has_rows_alike(the_.kind)) continue;
      Replays replays;
      if (reuse.rotates && other_.bytes() != 0) replays.in_front = [this] { other_.fill(0); };
      times[reuse.name] = launch_us(gpu_, replays, reuse, buffers_.size(),
                                    [this](StreamHandle stream, Turn turn) { launch(stream, turn); });
    }
    return times;
  }

 private:
  void launch(StreamHandle stream, Turn turn) const {
    call(the_, device_.backend->rows, {.device = &device_, .stream = stream},
         buffers_[turn.buffers].operands(turn.back));
  }

  const Device& device_;
  const Gpu& gpu_;
  RowProblem the_;
  RowValues values_;
  std::vector<Buffers> buffers_;
  DeviceMemory other_;  // is written to where all buffers together would stay in the cache
};

// Of the kernels that are named, or of all.
std::vector<RowProblem> problems_of(std::span<char*> names) {
  std::vector<RowProblem> all = problems();
  if (names.empty()) return all;
  const auto is = [](std::string_view name) {
    return [name](const RowProblem& the) { return kernel_of(the) == name; };
  };
  for (const char* name : names)
    if (std::ranges::none_of(all, is(name))) {
      std::string accepted;
      for (const RowProblem& the : all)
        if (accepted.find(kernel_of(the)) == std::string::npos) accepted += fmt::format(" {}", kernel_of(the));
      fail(ErrorKind::invalid_argument, "no kernel '{}'; accepted:{}", name, accepted);
    }
  std::erase_if(all, [&](const RowProblem& the) {
    return std::ranges::none_of(names, [&](const char* name) { return is(name)(the); });
  });
  return all;
}

Json described(const RowProblem& the) {
  const std::int64_t bytes = moved_bytes(the);
  return {{"kernel", kernel_of(the)}, {"way", way_of(the.kind)},
          {"rows", the.rows},         {"of_row", row_of(the)},
          {"bytes", bytes},           {"predicted_us", static_cast<double>(bytes) / kBytesOfUs + kLaunchUs}};
}

void measure(const Device& device, std::span<const RowProblem> problems, Json& report) {
  report["device"] = device.caps.name;
  report["driver"] = device.backend->versions().driver;
  report["dtype"] = name_of(kRowDType);
  report["protocol"] = fmt::format(
      "us of a launch, median of {} replays of a graph of {} launches; hot: the same buffers, which those in place "
      "have "
      "just written; to and fro: each reads what the one in front wrote, where rows fit; rotating: every operand from "
      "one of up to {} sets of buffers, {} MB in all; fewer are in no cache at first, where other memory was written",
      Replays{}.count, kLaunches, kLaunches, kRotatedBytes >> 20);
  for (const RowProblem& problem : problems) {
    Rows rows(device, problem);
    rows.check();
    Json row = described(problem);
    row["times"] = rows.times();
    fmt::print(stderr, "{}\n", row.dump());
    report["rows"].push_back(std::move(row));
  }
}

void run(std::span<char*> arguments) {
  if (arguments.empty()) fail(ErrorKind::invalid_argument, "accepted: COMMIT [KERNEL...], --predicted [KERNEL...]");
  const std::vector<RowProblem> problems = problems_of(arguments.subspan(1));
  Json report;
  if (std::string_view(arguments[0]) == "--predicted") {
    for (const RowProblem& problem : problems) report["rows"].push_back(described(problem));
  } else {
    report["commit"] = arguments[0];
    measure(open_device("cuda"), problems, report);
  }
  fmt::print("{}\n", report.dump(1));
}

}  // namespace
}  // namespace stof::cuda

int main(int count, char** arguments) {
  try {
    stof::cuda::run(std::span(arguments, static_cast<std::size_t>(count)).subspan(1));
    return 0;
  } catch (const stof::Error& error) {
    fmt::print(stderr, "bench_rows: {}\n", error.what());
    return 1;
  }
}
