// SPDX-License-Identifier: Apache-2.0
// What a session runs, timed whenever another program says so: the times of both are then taken in turns, at one clock
// (bench/peers/models.py). Weights are random; the plan is the one that sessions find for calls of this size,
// "kept" where an earlier search left one.
//   bench_session_turns MODEL TEXTS TOKENS MASK SECONDS [DTYPE DEVICE]
//   bench_session_turns bert-base 8 2048 'bigbird(64,3,2,3,1)' 0.05 f16 cuda
// Says what it runs, as JSON, with how far the worst text and the worst row are from the plan that f32 has by default:
// it ends where one is too far off; then for each line that it reads, after so many seconds of calls, the mean
// microseconds of one. Ends with its input.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "bench/agreement.h"
#include "cli/random_model.h"
#include "src/base/error.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "src/runtime/programs.h"
#include "src/runtime/timed_call.h"
#include "src/tensor/convert.h"

namespace stof {
namespace {

template <class Number>
Number number_of(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !(number > 0))
    fail(ErrorKind::invalid_argument, "'{}' is not a number above 0", text);
  return number;
}

DType dtype_of(std::string_view name) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    if (name == name_of(dtype)) return dtype;
  fail(ErrorKind::invalid_argument, "dtype '{}'; accepted: f32, f16, bf16", name);
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double mean_us(const OneTime& once, double seconds) {
  double sum = 0;
  int runs = 0;
  for (const double end = seconds_now() + seconds; runs == 0 || seconds_now() < end; ++runs) sum += once();
  return sum / runs;
}

struct Work {
  Graph graph;
  ProgramsOptions options;
  EvenCall call;
  std::int64_t vocabulary = 0;
};

// Rows of the texts, in f32. What lay there before was NaN.
std::vector<float> result_of(const Program& program, TimedCall& call) {
  const std::int64_t values = call.rows() * program.result_columns();
  const std::int64_t bytes = values * static_cast<std::int64_t>(size_of(program.dtype()));
  constexpr std::byte kNaN[] = {std::byte{0xFF}};
  call.fill(program.result(), kNaN, 0, bytes);
  call.run();
  std::vector<std::byte> stored = call.read(program.result(), 0, bytes);
  const Tensor exact =
      converted(view_of(stored.data(), program.dtype(), {call.rows(), program.result_columns()}), DType::f32);
  return {exact.as<float>(), exact.as<float>() + exact.size()};
}

struct Errors {
  double text = 0, row = 0;  // the worst ones'
};

// Of every text, against what f32 computes by its default plan. Bounds are those of cli/bench_grid.cpp.
Errors checked(const Work& work, const Program& program, TimedCall& call) {
  const DType dtype = program.dtype();
  const double bound = dtype == DType::f32 ? 1e-4 : dtype == DType::f16 ? 5e-3 : 5e-2;
  const std::vector<float> got = result_of(program, call);
  ProgramsOptions exact = work.options;
  exact.program.dtype = DType::f32, exact.plans = {};
  const Programs programs(work.graph, exact);
  TimedCall other(programs.by_default(), work.call, work.vocabulary);
  const std::vector<float> want = result_of(programs.by_default(), other);
  const auto each = static_cast<std::size_t>(work.call.length * program.result_columns());
  Errors worst;
  for (std::size_t begin = 0; begin < want.size(); begin += each) {
    const Agreement found = agreement_of(std::span(got).subspan(begin, each), std::span(want).subspan(begin, each),
                                         program.result_columns(), bound);
    if (!found.wrong.empty()) fail(ErrorKind::internal, "bug in STOF: text {}: {}", begin / each, found.wrong);
    worst = {std::max(worst.text, found.frobenius), std::max(worst.row, found.worst_row)};
  }
  return worst;
}

void run(std::span<char*> arguments) {
  if (arguments.size() != 5 && arguments.size() != 7)
    fail(ErrorKind::invalid_argument, "accepted: MODEL TEXTS TOKENS MASK SECONDS [DTYPE DEVICE]");
  const auto texts = number_of<std::int64_t>(arguments[1]), tokens = number_of<std::int64_t>(arguments[2]);
  const auto seconds = number_of<double>(arguments[4]);
  const DType dtype = arguments.size() == 7 ? dtype_of(arguments[5]) : DType::f16;
  const Device device = open_device(arguments.size() == 7 ? arguments[6] : "cuda");
  const Model model = cli::random_model(arguments[0], tokens, 1);
  const std::int64_t longest = model.config.max_positions;
  const Work work{.graph = simplify(build_graph(model)),
                  .options = {.program = {.device = device, .dtype = dtype, .longest = longest},
                              .mask = parse(arguments[3]),
                              .plans = {.folder = plan_folder()}},
                  .call = even_call(texts, tokens, longest),
                  .vocabulary = model.config.vocab_size};
  const Programs programs(work.graph, work.options);
  const ChosenPlan plan = programs.plan_of(work.call.bucket);
  const Program& program = programs.of(work.call.bucket);
  TimedCall call(program, work.call, work.vocabulary);
  const Errors errors = checked(work, program, call);
  const OneTime once = call.timer();
  const nlohmann::json what{{"origin", plan.origin},           {"kept", plan.kept},    {"scheme", plan.scheme.text()},
                            {"settings", plan.settings},       {"error", errors.text}, {"worst_row", errors.row},
                            {"texts_checked", work.call.texts}};
  fmt::print("{}\n", what.dump());
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    fmt::print("{:.3f}\n", mean_us(once, seconds));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace stof

int main(int count, char** arguments) {
  try {
    stof::run(std::span(arguments, static_cast<std::size_t>(count)).subspan(1));
    return 0;
  } catch (const stof::Error& error) {
    fmt::print(stderr, "bench_session_turns: {}\n", error.what());
    return 1;
  }
}
