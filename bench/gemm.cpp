// SPDX-License-Identifier: Apache-2.0
// The GEMM kernel against cuBLASLt and row kernels, on the four linears of a layer of BERT-base: device time of one
// call by replaying a graph of many, with operands in the L2 and with operands that are not; every result is compared
// with that of cuBLASLt and row kernels, and a wrong one has no time: it is named, and the program fails.
//   bench_gemm COMMIT [--every] [ROWS...] >bench/results/COMMIT-h200-gemm.json
//   bench_gemm --units [--every] [ROWS...]: the kernels that it needs, as lines for STOF_MORE_KERNELS
//   bench_gemm --compile SHARE OF [--every] [ROWS...]: compiles every OF-th of them into the cache, beginning at SHARE
//   bench_gemm --predict FILE: such a result with what is predicted today for each of its times, needs no GPU
// --every: more of those that are predicted to come near the best, and the kernel for compute capability 8.0.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/agreement.h"
#include "bench/gemm_operands.h"
#include "bench/replay.h"
#include "src/backend/cuda/driver/blas.h"
#include "src/backend/cuda/driver/device.h"
#include "src/backend/cuda/driver/stream.h"
#include "src/backend/cuda/matmul/instances.h"
#include "src/base/error.h"
#include "src/base/median.h"
#include "src/codegen/compiler.h"

namespace stof::cuda {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kRows[] = {128, 512, 1024, 4096, 16384, 32768};
constexpr std::int64_t kColdBytes = std::int64_t{130} << 20;  // twice the L2
constexpr int kReplays = 7, kMostSettings = 8;
constexpr double kMomentsBound = 1e-4;  // of a moment that is written; tests/backend/gemm_test.cpp asks for 1e-5
constexpr double kWithin = 1.5;         // of the shortest predicted time

struct Wanted {
  std::vector<std::int64_t> rows;
  bool every = false;
};

double median_us(const Gpu& gpu, double expected_us, const std::function<void(const LinearCall&)>& run,
                 const std::function<LinearCall(std::int64_t)>& call_of) {
  const int calls = std::clamp(static_cast<int>(1000 / expected_us), 4, 100);
  const std::vector<double> times = replay_us(gpu, {.count = kReplays, .warm = 2}, [&](StreamHandle stream) {
    for (int i = 0; i < calls; ++i) {
      LinearCall call = call_of(i);
      call.queue.stream = stream;
      run(call);
    }
  });
  return median_of(times) / calls;
}

struct Times {
  double hot_us = 0, cold_us = 0;
};

std::vector<MatmulChoice> all_settings(const LinearSpec& spec, std::int64_t rows) {
  const MatmulProblem problem = problem_of(spec, rows);
  std::vector<MatmulSetting> all = wgmma_settings();
  for (const MatmulSetting& setting : mma_settings()) all.push_back(setting);
  all.push_back({});
  std::vector<MatmulChoice> choices;
  for (const MatmulSetting& setting : all)
    if (!refuses(problem, spec.device->caps, setting))
      choices.push_back({setting, predicted_us(problem, spec.device->caps, setting)});
  std::stable_sort(choices.begin(), choices.end(),
                   [](const MatmulChoice& a, const MatmulChoice& b) { return a.predicted_us < b.predicted_us; });
  return choices;
}

// Those worth measuring: other kernels where they can, and what is predicted to come near the best.
std::vector<MatmulChoice> chosen(const LinearSpec& spec, std::int64_t rows, bool every) {
  const auto near_best = [](const std::vector<MatmulChoice>& choices, std::size_t most) {
    std::vector<MatmulChoice> few;
    double best = 0;
    for (const MatmulChoice& choice : choices) {
      const bool other = choice.setting.kernel != MatmulSetting::Kernel::wgmma;
      if (best == 0 && !other) best = choice.predicted_us;
      if (other || (choice.predicted_us <= kWithin * best && few.size() < most)) few.push_back(choice);
    }
    return few;
  };
  std::vector<MatmulChoice> choices = near_best(spec.device->backend->matmul.settings(spec, rows), kMostSettings);
  if (every) choices = near_best(all_settings(spec, rows), 2 * kMostSettings);
  return choices;
}

class Measurement {
 public:
  Measurement(const Device& device, const LinearShape& shape, std::int64_t rows, bool every)
      : device_(device), gpu_(gpu_of(device)), shape_(shape), rows_(rows), every_(every), hot_(device, shape, rows, 1) {
    copies_ = std::min<std::int64_t>(kColdBytes / hot_.bytes() + 1, 40);
    if (copies_ > 1) cold_ = std::make_unique<GemmOperands>(device, shape, rows, copies_);
  }

  void add_to(Json& report) const {
    for (const Pack pack : kPacks) {
      if (pack == Pack::encoder && !shape_.residual) continue;  // the same as without a norm
      const std::vector<float> want = expected(pack);
      const std::vector<PackedLinear> packed = hot_.pack(pack),
                                      many = cold_ ? cold_->pack(pack) : std::vector<PackedLinear>{};
      for (const MatmulChoice& choice : chosen(hot_.spec(pack), rows_, every_)) {
        device_.backend->matmul.prepare(packed.front(), choice.setting);
        const Agreement found = checked(choice, packed.front(), want, pack);
        Json row = described(choice, pack, found);
        if (found.wrong.empty()) {
          const Times times = time(choice, pack, packed, many);
          row["hot_us"] = times.hot_us, row["cold_us"] = times.cold_us;
        }
        fmt::print(stderr, "{}\n", row.dump());
        report.push_back(std::move(row));
      }
    }
  }

 private:
  Json described(const MatmulChoice& choice, Pack pack, const Agreement& found) const {
    Json row{{"rows", rows_},
             {"shape", shape_.name},
             {"columns", shape_.columns},
             {"inner", shape_.inner},
             {"pack", name_of(pack)},
             {"setting", text_of(choice.setting)},
             {"predicted_us", choice.predicted_us},
             {"error", found.frobenius},
             {"worst_row", found.worst_row}};
    if (!found.wrong.empty()) row["wrong"] = found.wrong;
    return row;
  }

  void run(const PackedLinear& packed, LinearCall call, const MatmulSetting& setting, Pack pack) const {
    call.setting = &setting;
    device_.backend->matmul.run(packed, call);
    // What one GEMM cannot do is a row kernel after it.
    if (pack == Pack::encoder && shape_.residual) hot_.norm_output(call);
  }

  Times time(const MatmulChoice& choice, Pack pack, const std::vector<PackedLinear>& packed,
             const std::vector<PackedLinear>& many) const {
    Times times;
    times.hot_us = median_us(
        gpu_, choice.predicted_us, [&](const LinearCall& call) { run(packed.front(), call, choice.setting, pack); },
        [&](std::int64_t) { return hot_.call(0); });
    if (!cold_) return {times.hot_us, times.hot_us};
    for (const PackedLinear& linear : many) device_.backend->matmul.prepare(linear, choice.setting);
    std::size_t next = 0;
    times.cold_us = median_us(
        gpu_, choice.predicted_us,
        [&](const LinearCall& call) { run(many[next++ % many.size()], call, choice.setting, pack); },
        [&](std::int64_t i) { return cold_->call(i); });
    return times;
  }

  // By cuBLASLt, on operands that a row kernel has normalised where the pack defers that.
  std::vector<float> expected(Pack pack) const {
    const MatmulSetting blas;
    LinearCall call = hot_.call(0);
    if (pack == Pack::deferred) call = hot_.normalised(call);
    hot_.poison();
    run(hot_.pack(pack == Pack::plain ? Pack::plain : Pack::epilogue).front(), call, blas,
        pack == Pack::encoder ? pack : Pack::plain);
    return hot_.output(0);
  }

  Agreement checked(const MatmulChoice& choice, const PackedLinear& packed, const std::vector<float>& want,
                    Pack pack) const {
    hot_.poison();
    run(packed, hot_.call(0), choice.setting, pack);
    Agreement found = agreement_of(hot_.output(0), want, shape_.columns);
    if (const double error = hot_.spec(pack).moments ? hot_.moments_error() : 0; !(error < kMomentsBound))
      found.wrong += fmt::format("{}moments {:.1e}; accepted: less than {:.0e}", found.wrong.empty() ? "" : "; ", error,
                                 kMomentsBound);
    return found;
  }

  const Device& device_;
  const Gpu& gpu_;
  LinearShape shape_;
  std::int64_t rows_, copies_;
  bool every_;
  GemmOperands hot_;
  std::unique_ptr<GemmOperands> cold_;
};

// By name.
std::map<std::string, GemmInstance> instances(const Wanted& wanted) {
  const Device device = open_device("cuda:h200");
  std::map<std::string, GemmInstance> all;
  for (const std::int64_t count : wanted.rows)
    for (const LinearShape& shape : kEncoderLinears)
      for (const Pack pack : kPacks) {
        const LinearSpec spec = described(device, shape, pack);
        for (const MatmulChoice& choice : chosen(spec, count, wanted.every)) {
          if (choice.setting == MatmulSetting{}) continue;
          const GemmInstance instance = instance_of(problem_of(spec, count), choice.setting);
          all.emplace(name_of(instance), instance);
        }
      }
  return all;
}

void print_units(const Wanted& wanted) {
  for (const auto& [name, instance] : instances(wanted))
    if (instance.setting.kernel == MatmulSetting::Kernel::wgmma) fmt::print("{}\n", line_of(instance));
}

void compile(const Wanted& wanted, std::int64_t share, std::int64_t of) {
  const Compiler compiler(default_compiler_options());
  std::int64_t index = 0;
  for (const auto& [name, instance] : instances(wanted))
    if (index++ % of == share) compiler.cubin(source_of(instance), "sm_90a");
}

Json measure(const char* commit, const Wanted& wanted) {
  const Device device = open_device("cuda");
  Json report{{"commit", commit},    {"device", device.caps.name}, {"cublaslt", blas_version()}, {"dtype", "f16"},
              {"replays", kReplays}, {"cold_bytes", kColdBytes},   {"rows", Json::array()}};
  for (const std::int64_t count : wanted.rows)
    for (const LinearShape& shape : kEncoderLinears)
      Measurement(device, shape, count, wanted.every).add_to(report["rows"]);
  return report;
}

// Prints the report; fails where a result was wrong.
int measured(const char* commit, const Wanted& wanted) {
  const Json report = measure(commit, wanted);
  fmt::print("{}\n", report.dump(1));
  int wrong = 0;
  for (const Json& row : report.at("rows")) {
    if (!row.contains("wrong")) continue;
    ++wrong;
    fmt::print(stderr, "bench_gemm: wrong: {} rows, {}, {}, {}: {}\n", row.at("rows").get<std::int64_t>(),
               row.at("shape").get<std::string>(), row.at("pack").get<std::string>(),
               row.at("setting").get<std::string>(), row.at("wrong").get<std::string>());
  }
  return wrong == 0 ? 0 : 1;
}

// Settings that there are no longer keep their times and get no prediction.
Json predict(const char* file) {
  std::ifstream in(file);
  if (!in) fail(ErrorKind::bad_file, "cannot read '{}'", file);
  Json report = Json::parse(in);
  const Device device = open_device("cuda:h200");
  for (Json& row : report.at("rows")) {
    const LinearSpec spec = described(device, linear_called(row.at("shape").get<std::string>()),
                                      pack_called(row.at("pack").get<std::string>()));
    const MatmulProblem problem = problem_of(spec, row.at("rows"));
    const MatmulSetting setting = matmul_setting_of(row.at("setting").get<std::string>());
    if (refuses(problem, device.caps, setting)) row.erase("predicted_us");
    else row["predicted_us"] = predicted_us(problem, device.caps, setting);
  }
  return report;
}

std::int64_t number_of(std::string_view text) {
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0)
    fail(ErrorKind::invalid_argument, "'{}' is not a number", text);
  return number;
}

int run(std::span<char*> arguments) {
  const std::string_view mode = arguments[1];
  if (mode == "--predict" && arguments.size() == 3) {
    fmt::print("{}\n", predict(arguments[2]).dump(1));
    return 0;
  }
  const std::size_t options = mode == "--compile" ? 4 : 2;
  if (arguments.size() < options) fail(ErrorKind::invalid_argument, "--compile takes a share and their number");
  Wanted wanted;
  for (const std::string_view argument : arguments.subspan(options)) {
    if (argument == "--every") wanted.every = true;
    else wanted.rows.push_back(number_of(argument));
  }
  if (wanted.rows.empty()) wanted.rows.assign(std::begin(kRows), std::end(kRows));
  if (mode == "--units") print_units(wanted);
  else if (mode == "--compile") compile(wanted, number_of(arguments[2]), number_of(arguments[3]));
  else return measured(arguments[1], wanted);
  return 0;
}

}  // namespace
}  // namespace stof::cuda

int main(int count, char** arguments) {
  if (count < 2) {
    fmt::print(stderr, "usage: bench_gemm COMMIT|--units|--compile SHARE OF [--every] [ROWS...], or --predict FILE\n");
    return 2;
  }
  try {
    return stof::cuda::run({arguments, static_cast<std::size_t>(count)});
  } catch (const stof::Error& error) {
    fmt::print(stderr, "bench_gemm: {}\n", error.what());
    return 1;
  }
}
