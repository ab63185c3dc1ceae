// SPDX-License-Identifier: Apache-2.0
// stof bench attention: the time of masked attention over masks, shapes and dtypes, each output checked first.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>

#include "cli/attention_problem.h"
#include "cli/attention_times.h"
#include "cli/bench_cases.h"
#include "cli/bench_results.h"
#include "cli/call_times.h"
#include "cli/commands.h"
#include "cli/demo.h"
#include "cli/float_dtype.h"
#include "cli/number_option.h"
#include "cli/outputs.h"
#include "cli/problem_shape.h"
#include "cli/progress.h"
#include "cli/roofline.h"
#include "cli/table.h"
#include "src/attention/describe.h"
#include "src/attention/planned.h"
#include "src/backend/contract.h"
#include "src/backend/cuda/driver/device.h"
#include "src/base/error.h"
#include "src/base/threads.h"

namespace stof::cli {
namespace {

struct BenchOptions {
  std::vector<std::string> masks, dtypes;
  std::vector<std::string> shapes;
  std::optional<std::int64_t> kv_heads;
  std::string device = "auto", kernel = "auto", json;
  int threads = 0;
  double seconds = 0.4;
  bool resume = false;
};

struct Case {
  std::string mask;
  AttentionShape shape;

  std::string id() const {
    const std::string shared = shape.kv_heads == shape.heads ? "" : fmt::format(" kv_heads {}", shape.kv_heads);
    return fmt::format("({},{},{},{}){} {} {}", shape.batch, shape.heads, shape.queries, shape.head_dim, shared,
                       name_of(shape.dtype), mask);
  }
};

std::vector<Case> cases_of(const BenchOptions& options, const Device& device) {
  std::vector<std::array<std::int64_t, 4>> shapes;
  for (const std::string& text : options.shapes) {
    shapes.push_back(parse_shape(text));
    if (shapes.back()[2] < 1)
      fail(ErrorKind::invalid_argument, "--shape {}: a length of {}; accepted: at least 1", text, shapes.back()[2]);
  }
  if (shapes.empty()) shapes = default_shapes(device);
  std::vector<DType> dtypes;
  for (const std::string& text : options.dtypes) dtypes.push_back(parse_float_dtype(text));
  if (dtypes.empty()) dtypes = default_dtypes(device);
  std::vector<Case> cases;
  for (const auto& [batch, heads, length, head_dim] : shapes)
    for (const DType dtype : dtypes)
      for (const std::string& mask : options.masks.empty() ? default_masks(device, length) : options.masks)
        cases.push_back({mask,
                         {.batch = batch,
                          .heads = heads,
                          .kv_heads = options.kv_heads.value_or(heads),
                          .queries = length,
                          .keys = length,
                          .head_dim = head_dim,
                          .dtype = dtype}});
  for (const Case& one : cases) {  // what is wrong with the last one is said before the first takes its time
    check_shape(one.shape);
    const Mask mask = parse(one.mask);
    if (options.kernel != "auto") choose_attention(mask, one.shape, device, options.kernel);
  }
  return cases;
}

// Planned, run and checked: what is left is to time it.
struct Prepared {
  AttentionProblemInputs inputs;
  BoundMask bound;
  MaskStats stats;
  Attention attention;
  double plan_us = 0;
};

Prepared prepare(const Case& one, const Device& device, const std::string& kernel) {
  constexpr std::array kTile = {BlockSize{64, 64}};
  const Mask mask = parse(one.mask);
  BoundMask bound = BoundMask::once_for_like_items(
      mask, {.queries = one.shape.queries, .keys = one.shape.keys, .batch = one.shape.batch, .heads = one.shape.heads});
  MaskStats stats = measure(bound, kTile);
  const Stopwatch watch;
  Attention attention(mask, one.shape, device, {.kernel = kernel});
  const double plan_us = 1e6 * watch.seconds();
  return {AttentionProblemInputs(one.shape), std::move(bound), std::move(stats), std::move(attention), plan_us};
}

double allowed_pairs(const Prepared& p) {
  return p.stats.allowed_pairs * static_cast<double>(p.inputs.shape.batch) / static_cast<double>(p.stats.extent.batch);
}

// Everything read and written once, or every allowed product: no program takes less.
Json floor_of(const Prepared& p, const std::optional<Roofline>& roofline) {
  if (!roofline) return nullptr;
  const AttentionShape& s = p.inputs.shape;
  const double bytes =
      static_cast<double>(p.inputs.q.bytes() + p.inputs.k.bytes() + p.inputs.v.bytes() + p.inputs.out.bytes());
  const double products = 4e-3 * static_cast<double>(s.head_dim) * allowed_pairs(p) / roofline->gflops(s.dtype);
  const double memory = 1e-3 * bytes / roofline->copy_gb_s;
  return {{"us", std::max(products, memory)}, {"of", products > memory ? "matmul" : "memory"}};
}

Json run_case(const Case& one, const Device& device, const BenchOptions& options,
              const std::optional<Roofline>& roofline) {
  const Prepared p = prepare(one, device, options.kernel);
  p.inputs.poison();
  const AttentionTimes times = time_attention(p.attention, p.inputs, device, options.seconds,
                                              [&] { return check_attention(p.bound, p.inputs); });
  const AttentionShape& s = one.shape;
  Json row{{"id", one.id()},
           {"mask", one.mask},
           {"shape", {s.batch, s.heads, s.queries, s.head_dim}},
           {"kv_heads", s.kv_heads},
           {"dtype", name_of(s.dtype)},
           {"density", p.stats.density},
           {"touched", p.stats.blocks[0].partial + p.stats.blocks[0].full},
           {"plan_us", p.plan_us}};
  row.update(describe(p.attention.plan()));
  row["hot"] = json_of(times.hot);
  row["cold"] = times.cold ? json_of(*times.cold) : Json();
  row["wall_us"] = times.wall.median_us;
  row["useful_gflops"] = 4e-3 * static_cast<double>(s.head_dim) * allowed_pairs(p) / times.hot.median_us;
  row["floor"] = floor_of(p, roofline);
  row["frobenius"] = times.error.frobenius;
  row["worst_row"] = times.error.worst_row;
  return row;
}

std::string microseconds(double us) { return fmt::format("{:.{}f}", us, us < 100 ? 1 : 0); }

std::string shortened(const std::string& text) {
  constexpr std::size_t kWidest = 32;
  return text.size() <= kWidest ? text : text.substr(0, kWidest - 3) + "...";
}

std::vector<std::string> cells_of(const Json& row) {
  const Json& shape = row.at("shape");
  const double median = row.at("hot").at("median_us").get<double>();
  const Json &cold = row.at("cold"), &floor = row.at("floor");
  return {fmt::format("({}) {} {}", fmt::join(shape.get<std::vector<std::int64_t>>(), ","),
                      row.at("dtype").get<std::string>(), shortened(row.at("mask").get<std::string>())),
          fmt::format("{:.1f} %", 100 * row.at("density").get<double>()),
          fmt::format("{:.1f} %", 100 * row.at("touched").get<double>()),
          row.at("kernel").get<std::string>(),
          microseconds(row.at("predicted_us").get<double>()),
          microseconds(median),
          cold.is_null() ? "-" : microseconds(cold.at("median_us").get<double>()),
          fmt::format("{:.0f}", row.at("useful_gflops").get<double>()),
          floor.is_null() ? "-" : fmt::format("{:.2f}", median / floor.at("us").get<double>())};
}

void bench(const BenchOptions& options) {
  check_outputs({{"--json", options.json, true}}, files_of_masks(options.masks));
  if (options.threads < 0 || options.threads > 1024)
    fail(ErrorKind::invalid_argument, "--threads {}; accepted: 0 (all) to 1024", options.threads);
  if (!(options.seconds > 0 && options.seconds <= 60))
    fail(ErrorKind::invalid_argument, "--seconds {}; accepted: above 0, to 60", options.seconds);
  const ThreadCount threads(options.threads);
  const Device device = open_device(options.device);
  if (device.backend == &cuda_backend) cuda::gpu_of(device);  // not a description of one
  const std::vector<Case> cases = cases_of(options, device);
  BenchResults results(describe_run("bench attention", device), options.json, options.resume);
  for (const Case& one : cases) results.check(one.id(), cells_of);
  std::optional<Roofline> roofline;
  if (device.backend->memory == nullptr) roofline = measure_roofline(device);
  if (roofline) results.set("roofline", json_of(*roofline));
  results.set("protocol", attention_protocol(device));
  Table table({"problem", "density", "touched", "kernel", "predicted us", "us", "cold us", "GFLOP/s", "x floor"});
  {
    Progress progress("measuring", std::ssize(cases));
    for (const Case& one : cases) {
      if (results.find(one.id()) == nullptr) results.add(run_case(one, device, options, roofline));
      table.add(cells_of(*results.find(one.id())));
      progress.advance(1);
    }
  }
  results.finish();
  if (options.json == "-") return;
  if (roofline)
    fmt::print("matmul at best {:.0f} GFLOP/s in f32, {:.0f} in bf16; copies {:.1f} GB/s; {:.2f} GHz\n",
               roofline->f32_gflops, roofline->bf16_gflops, roofline->copy_gb_s, roofline->clock_ghz);
  fmt::print("{}", table.text());
}

}  // namespace

void add_bench_attention(CLI::App& bench_app) {
  const auto options = std::make_shared<BenchOptions>();
  CLI::App* command = bench_app.add_subcommand(
      "attention", "Time masked attention over masks, shapes and dtypes, each output checked first");
  command->add_option("--mask", options->masks, "a mask, any number of times (default: those of docs/benchmarks.md)");
  command->add_option("--shape", options->shapes, "B,H,S,D: items, query heads, length, head dimension; repeatable");
  command->add_option("--dtype", options->dtypes, "f32, f16 or bf16; repeatable");
  add_number(command, "--kv-heads", options->kv_heads,
             "heads of keys and values, of which H is a multiple (default H)");
  command->add_option("--kernel", options->kernel, "auto, or one kernel by name")->capture_default_str();
  command->add_option("--device", options->device, "auto, cpu, cuda, cuda:N")->capture_default_str();
  add_number(command, "--threads", options->threads, "of the CPU; 0: all")->capture_default_str();
  add_number(command, "--seconds", options->seconds, "that a row is timed for, at least five calls")
      ->capture_default_str();
  command->add_option("--json", options->json, "write the results as JSON into FILE, row by row ('-': to stdout)");
  command->add_flag("--resume", options->resume, "go on with the rows that --json FILE has");
  command->callback([options] { bench(*options); });
}

}  // namespace stof::cli
