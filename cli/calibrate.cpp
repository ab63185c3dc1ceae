// SPDX-License-Identifier: Apache-2.0
// stof calibrate: what the attention kernels cost on this machine, measured, fitted and kept for every later choice;
// and how much the choice loses against trying everything, on problems that were not used for it.
#include "cli/calibrate.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>
#include <utility>

#include "cli/bench_results.h"
#include "cli/build_commit.h"
#include "cli/calibration_grid.h"
#include "cli/commands.h"
#include "cli/cost_fit.h"
#include "cli/number_option.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "src/backend/contract.h"
#include "src/backend/cpu/attention/blocks.h"
#include "src/backend/cpu/attention/cost_table.h"
#include "src/backend/cpu/attention/rows.h"
#include "src/backend/cuda/attention/cost_table.h"
#include "src/base/atomic_file.h"
#include "src/base/error.h"

namespace stof::cli {
namespace {

// Every fourth case: enough to see that everything runs.
std::vector<GridCase> grid_of(const CalibrateOptions& options) {
  std::vector<GridCase> grid = options.regret ? held_out_grid() : calibration_grid();
  if (!options.quick) return grid;
  std::vector<GridCase> few;
  for (std::size_t i = 0; i < grid.size(); i += 4)
    if (grid[i].keys <= 96) few.push_back(grid[i]);
  return few;
}

Json measure_grid(const std::vector<GridCase>& grid, const Device& device) {
  Json rows = Json::array();
  Progress progress("measuring", std::ssize(grid));
  for (const GridCase& one : grid) {
    rows.push_back(time_grid_case(one, device));
    progress.advance(1);
  }
  return rows;
}

using Samples = std::map<std::pair<std::string, std::string>, std::vector<CostSample>>;  // by kernel and dtype

Samples samples_of(const Json& rows) {
  Samples samples;
  for (const Json& row : rows)
    for (const Json& plan : row.at("plans"))
      samples[{plan.at("kernel"), row.at("dtype")}].push_back(
          {.work = plan.at("work").get<std::vector<double>>(), .us = plan.at("us").get<double>()});
  return samples;
}

template <std::size_t kTerms>
void set_costs(const Samples& samples, std::string_view kernel, DType dtype, std::array<double, kTerms>& costs,
               Table& table) {
  const auto found = samples.find({std::string(kernel), std::string(name_of(dtype))});
  STOF_CHECK(found != samples.end());
  const CostFit fit = fit_costs(found->second);
  STOF_CHECK(fit.nanoseconds.size() == kTerms);
  std::copy(fit.nanoseconds.begin(), fit.nanoseconds.end(), costs.begin());
  table.add({fmt::format("{} {}", kernel, name_of(dtype)), fmt::format("{}", found->second.size()),
             fmt::format("{:.1f} %", 100 * fit.error)});
}

cpu::CostTable fit_table(const Json& rows, const Device& device, Table& table) {
  const Samples samples = samples_of(rows);
  cpu::CostTable costs = cpu::built_in_costs();
  costs.device = device.caps.name;
  costs.processor = cpu::processor_name();
  costs.commit = build_commit();
  costs.day = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
  set_costs(samples, cpu::kBlockAttention, DType::f32, costs.block_f32, table);
  set_costs(samples, cpu::kBlockAttention, DType::f16, costs.block_f16, table);
  set_costs(samples, cpu::kBlockAttention, DType::bf16, costs.block_bf16, table);
  set_costs(samples, cpu::kRowAttention, DType::f32, costs.row_f32, table);
  set_costs(samples, cpu::kRowAttention, DType::f16, costs.row_f16, table);
  set_costs(samples, cpu::kRowAttention, DType::bf16, costs.row_bf16, table);
  return costs;
}

// What the choice took, more than the fastest candidate.
double regret_of(const Json& row) {
  double chosen = 0, best = 1e30;
  for (const Json& plan : row.at("plans")) {
    const double us = plan.at("us").get<double>();
    best = std::min(best, us);
    if (plan.at("chosen").get<bool>()) chosen = us;
  }
  return chosen / best - 1;
}

void report_regret(const Json& rows, Json& results, bool print) {
  std::vector<std::pair<double, const Json*>> found;
  double sum = 0;
  for (const Json& row : rows) {
    found.emplace_back(regret_of(row), &row);
    sum += found.back().first;
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  const double mean = sum / static_cast<double>(found.size());
  results["mean_regret"] = mean;
  results["worst_regret"] = found.front().first;
  if (!print) return;
  fmt::print("{} problems held out, mean regret {:.1f} %, worst {:.1f} %:\n", found.size(), 100 * mean,
             100 * found.front().first);
  Table table({"problem", "regret"});
  for (std::size_t i = 0; i < std::min<std::size_t>(8, found.size()); ++i) {
    const Json& row = *found[i].second;
    table.add({fmt::format("{} {} keys, d {} {}", row.at("mask").get<std::string>(), row.at("keys").get<int>(),
                           row.at("head_dim").get<int>(), row.at("dtype").get<std::string>()),
               fmt::format("{:.1f} %", 100 * found[i].first)});
  }
  fmt::print("{}", table.text());
}

// What would be ignored.
void check_together(const CalibrateOptions& options) {
  if (options.regret && !(options.out.empty() && options.source.empty()))
    fail(ErrorKind::invalid_argument, "--regret keeps no costs; accepted with it: --json, not {}",
         options.out.empty() ? "--source" : "--out");
  if (!options.out.empty() && !options.source.empty())
    fail(ErrorKind::invalid_argument, "--out and --source are of one table; accepted: one of them");
  if (options.times.empty()) return;
  for (const auto& [is_there, name] :
       {std::pair(options.quick, "--quick"), std::pair(options.resume, "--resume"),
        std::pair(options.grouped, "--grouped"), std::pair(options.softcap.has_value(), "--softcap"),
        std::pair(options.biased.has_value(), "--biased")})
    if (is_there)
      fail(ErrorKind::invalid_argument,
           "{} says what to measure, and --times what was; accepted with --times: --only, --regret, --out, --source, "
           "--json",
           name);
}

// Of those that no costs are fitted to.
void check_other_problems(const CalibrateOptions& options, const Device& device) {
  std::vector<std::string_view> asked;
  if (options.softcap) asked.push_back("--softcap");
  if (options.biased) asked.push_back("--biased");
  if (options.grouped) asked.push_back("--grouped");
  if (asked.empty()) return;
  if (!options.regret || device.backend->memory == nullptr)
    fail(ErrorKind::invalid_argument,
         "{} is for problems of a GPU that nothing is fitted to; accepted with it: --device cuda --regret",
         asked.back());
  if (asked.size() > 1)
    fail(ErrorKind::invalid_argument, "{} are of other problems each; accepted: one of them",
         fmt::join(asked, " and "));
  if (options.softcap && !(*options.softcap > 0))
    fail(ErrorKind::invalid_argument, "--softcap is {}; accepted: above 0", *options.softcap);
  if (options.biased && *options.biased < 0)
    fail(ErrorKind::invalid_argument, "--biased is {}; accepted: 0 and more", *options.biased);
}

// Where costs are kept when nothing else is said: known before a minute of measuring, as --out is.
void check_kept(const CalibrateOptions& options, const Device& device) {
  const bool on_gpu = device.backend->memory != nullptr;
  if (options.regret || !options.keeps() || !options.out.empty() || !options.source.empty() ||
      (on_gpu && options.only_measures()))
    return;
  const std::filesystem::path file = on_gpu ? cuda::calibration_file() : cpu::calibration_file();
  std::error_code said_by_the_file;
  std::filesystem::create_directories(file.parent_path(), said_by_the_file);
  const AtomicFile never_committed(file);
}

void calibrate(const CalibrateOptions& options) {
  check_outputs(
      {{"--json", options.json, true}, {"--out", options.out}, {"--source", options.source}},
      {{"--times", options.times, options.only.empty() ? "--json" : ""}});  // --only would leave the other rows out
  Device device = open_device(options.device == "auto" ? "cpu" : options.device);
  check_other_problems(options, device);
  check_together(options);
  if (device.backend->memory != nullptr) {
    if (options.only_measures() && (options.json.empty() || !options.times.empty()))
      fail(ErrorKind::invalid_argument,
           "--only leaves too few problems for costs that every later choice is made by; accepted with it: --regret, "
           "--out, --source, or --json without --times, which keeps the measurements only");
    check_kept(options, device);
    return calibrate_gpu(options, device);
  }
  if (!options.times.empty() || !options.source.empty() || !options.only.empty() || options.resume)
    fail(ErrorKind::invalid_argument,
         "--times, --only, --source and --resume are of a GPU; accepted with them: --device cuda, cuda:N");
  check_kept(options, device);
  device.caps.cores = 1;
  const bool print = options.json != "-";
  Json results = describe_run(options.regret ? "calibrate --regret" : "calibrate", device);
  const Json rows = measure_grid(grid_of(options), device);
  if (options.regret) {
    // Results travel: not with the folder that the costs lie in here.
    const std::string& day = cpu::costs_in_use().table.day;
    results["costs"] = day.empty() ? "built in" : fmt::format("measured here on {}", day);
    report_regret(rows, results, print);
  } else {
    Table table({"kernel", "samples", "error"});
    const cpu::CostTable costs = fit_table(rows, device, table);
    const std::filesystem::path file =
        options.out.empty() ? cpu::calibration_file() : std::filesystem::path(options.out);
    if (options.keeps()) cpu::write_calibration(costs, file);
    if (print) fmt::print("{}{}\n", table.text(), kept_in(options, file));
  }
  results["rows"] = rows;
  if (!options.json.empty()) write_json(results, options.json);
}

}  // namespace

std::string kept_in(const CalibrateOptions& options, const std::filesystem::path& file) {
  return options.keeps() ? fmt::format("kept in {}", file.string())
                         : "not kept: of a few problems only; --out FILE keeps them";
}

void add_calibrate(CLI::App& app) {
  const auto options = std::make_shared<CalibrateOptions>();
  CLI::App* command = app.add_subcommand(
      "calibrate", "Measure what the attention kernels cost on this machine, for every later choice between them");
  command->add_option("--device", options->device, "auto (cpu), cpu, cuda, cuda:N")->capture_default_str();
  command->add_flag("--regret", options->regret, "measure what the choice loses, on other problems; nothing is kept");
  add_number(command, "--softcap", options->softcap,
             "of a GPU, with --regret: other problems, with scores that are capped at X");
  add_number(command, "--biased", options->biased,
             "of a GPU, with --regret: other problems, with a relative bias that reaches X keys");
  command->add_flag("--grouped", options->grouped,
                    "of a GPU, with --regret: other problems, of few queries whose heads share keys");
  command->add_flag("--quick", options->quick, "a few small problems only, to see that it works; kept with --out only");
  command->add_option("--out", options->out, "write the table into FILE (default: where choices look for it)");
  command->add_option("--times", options->times, "of a GPU: take the measurements from FILE, which --json wrote");
  command->add_option("--only", options->only,
                      "of a GPU: problems with TEXT in their names, as in '(1,12,12,512,512,64) f16 causal'; may be "
                      "repeated");
  command->add_option("--source", options->source, "of a GPU: write the table as C++ into FILE, to be built in");
  command->add_flag("--resume", options->resume, "of a GPU: go on with the rows that --json FILE has");
  command->add_option("--json", options->json, "write all measurements as JSON into FILE ('-': to stdout)");
  command->callback([options] { calibrate(*options); });
}

}  // namespace stof::cli
