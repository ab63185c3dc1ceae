// SPDX-License-Identifier: Apache-2.0
// How the time of a linear changes while a GPU works without a pause: from rest, launch after launch, for as long as is
// asked. What holds back the clock (power, heat) shows in the later times; a bench of short runs sees the first.
//   bench_steady SECONDS ROWS LINEAR PACK SETTING [LINEAR PACK SETTING]...
//   bench_steady 2 16384 up plain 'wgmma 128x192 k64 s4 w1 t2 split1'
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <memory>
#include <span>
#include <thread>

#include "bench/gemm_operands.h"
#include "bench/replay.h"
#include "src/backend/cuda/driver/device.h"
#include "src/base/error.h"
#include "src/base/median.h"

namespace stof::cuda {
namespace {

constexpr double kLaunchUs = 2000;  // of one graph, about
constexpr double kUntil[] = {0.01, 0.03, 0.1, 0.3, 1, 3, 10};
constexpr auto kRest = std::chrono::milliseconds(1500);

struct Linear {
  LinearShape shape;
  Pack pack;
  MatmulSetting setting;
};

double number_of(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number <= 0)
    fail(ErrorKind::invalid_argument, "'{}' is not a number above 0", text);
  return number;
}

// Microseconds of one launch after the other.
std::vector<double> unpaused_us(const Gpu& gpu, const CapturedGraph& graph, int launches) {
  const Stream stream(gpu);
  std::vector<std::unique_ptr<Event>> events;
  for (int i = 0; i <= launches; ++i) events.push_back(std::make_unique<Event>(gpu));
  std::this_thread::sleep_for(kRest);
  events.front()->record(stream.handle());
  for (int i = 1; i <= launches; ++i) {
    graph.launch(stream.handle());
    events[static_cast<std::size_t>(i)]->record(stream.handle());
  }
  std::vector<double> times;
  for (std::size_t i = 1; i < events.size(); ++i)
    times.push_back(static_cast<double>(events[i]->microseconds_since(*events[i - 1])));
  return times;
}

// Medians of what began in each stretch of time.
std::string stretches(const std::vector<double>& times, int calls) {
  std::string text;
  std::size_t at = 0;
  double seconds = 0;
  for (const double until : kUntil) {
    std::vector<double> here;
    for (; at < times.size() && seconds < until; ++at) {
      here.push_back(times[at]);
      seconds += times[at] * 1e-6;
    }
    if (here.empty()) break;
    text += fmt::format("  <{:g} s {:.2f}", until, median_of(here) / calls);
  }
  return text;
}

void measure(const Device& device, const Linear& linear, double seconds, std::int64_t rows) {
  const Gpu& gpu = gpu_of(device);
  const GemmOperands operands(device, linear.shape, rows, 1);
  const std::vector<PackedLinear> packed = operands.pack(linear.pack);
  LinearCall call = operands.call(0);
  call.setting = &linear.setting;
  const auto run = [&](StreamHandle stream) {
    call.queue.stream = stream;
    device.backend->matmul.run(packed.front(), call);
  };
  device.backend->matmul.prepare(packed.front(), linear.setting);
  const double once = median_of(replay_us(gpu, {.count = 5, .warm = 2}, run));
  const int calls = std::max(1, static_cast<int>(kLaunchUs / once));
  const CapturedGraph graph(gpu, [&](StreamHandle stream) {
    for (int i = 0; i < calls; ++i) run(stream);
  });
  const int launches = std::max(1, static_cast<int>(seconds * 1e6 / (once * calls)));
  fmt::print("{:6} {:13} {:8} {:34}{}\n", rows, linear.shape.name, name_of(linear.pack), text_of(linear.setting),
             stretches(unpaused_us(gpu, graph, launches), calls));
  std::fflush(stdout);
}

void run(std::span<char*> arguments) {
  if (arguments.size() < 5 || arguments.size() % 3 != 2)
    fail(ErrorKind::invalid_argument, "accepted: SECONDS ROWS LINEAR PACK SETTING [LINEAR PACK SETTING]...");
  const double seconds = number_of(arguments[0]);
  const auto rows = static_cast<std::int64_t>(number_of(arguments[1]));
  if (seconds > std::end(kUntil)[-1] || rows < 1)
    fail(ErrorKind::invalid_argument, "{} seconds of {} rows; accepted: at most {:g} seconds, at least one row",
         seconds, rows, std::end(kUntil)[-1]);
  const Device device = open_device("cuda");
  for (std::size_t i = 2; i < arguments.size(); i += 3)
    measure(device, {linear_called(arguments[i]), pack_called(arguments[i + 1]), matmul_setting_of(arguments[i + 2])},
            seconds, rows);
}

}  // namespace
}  // namespace stof::cuda

int main(int count, char** arguments) {
  try {
    stof::cuda::run(std::span(arguments, static_cast<std::size_t>(count)).subspan(1));
    return 0;
  } catch (const stof::Error& error) {
    fmt::print(stderr, "bench_steady: {}\n", error.what());
    return 1;
  }
}
