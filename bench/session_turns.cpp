// SPDX-License-Identifier: Apache-2.0
// What a session runs, timed whenever another program says so: the times of both are then taken in turns, at one clock
// (bench/peers/models.py). Weights are random; the plan is the one that sessions find for calls of this size,
// "kept" where an earlier search left one.
//   bench_session_turns MODEL TEXTS TOKENS MASK SECONDS [DTYPE DEVICE]
//   bench_session_turns bert-base 8 2048 'bigbird(64,3,2,3,1)' 0.05 f16 cuda
// Says what it runs, as JSON; then for each line that it reads, after so many seconds of calls, the mean microseconds
// of one. Ends with its input.
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "cli/random_model.h"
#include "src/base/error.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "src/runtime/programs.h"
#include "src/runtime/timed_call.h"

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

void run(std::span<char*> arguments) {
  if (arguments.size() != 5 && arguments.size() != 7)
    fail(ErrorKind::invalid_argument, "accepted: MODEL TEXTS TOKENS MASK SECONDS [DTYPE DEVICE]");
  const auto texts = number_of<std::int64_t>(arguments[1]), tokens = number_of<std::int64_t>(arguments[2]);
  const auto seconds = number_of<double>(arguments[4]);
  const DType dtype = arguments.size() == 7 ? dtype_of(arguments[5]) : DType::f16;
  const Device device = open_device(arguments.size() == 7 ? arguments[6] : "cuda");
  const Model model = cli::random_model(arguments[0], tokens, 1);
  const std::int64_t longest = model.config.max_positions;
  const Programs programs(simplify(build_graph(model)),
                          {.program = {.device = device, .dtype = dtype, .longest = longest},
                           .mask = parse(arguments[3]),
                           .plans = {.folder = plan_folder()}});
  const EvenCall timed = even_call(texts, tokens, longest);
  const ChosenPlan plan = programs.plan_of(timed.bucket);
  TimedCall call(programs.of(timed.bucket), timed, model.config.vocab_size);
  const OneTime once = call.timer();
  const nlohmann::json what{
      {"origin", plan.origin}, {"kept", plan.kept}, {"scheme", plan.scheme.text()}, {"settings", plan.settings}};
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
