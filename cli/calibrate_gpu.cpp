// SPDX-License-Identifier: Apache-2.0
// stof calibrate --device cuda: every plan of the problems of a grid, timed; costs fitted to them, or the regret of the
// choice between them. With --times the measurements come from a file, and need no GPU.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "cli/bench_results.h"
#include "cli/build_commit.h"
#include "cli/calibrate.h"
#include "cli/gpu_cost_fit.h"
#include "cli/gpu_grid.h"
#include "cli/gpu_plan_times.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "src/backend/cuda/driver/device.h"
#include "src/base/atomic_file.h"
#include "src/base/error.h"
#include "src/model/file_map.h"

namespace stof::cli {
namespace {

bool wanted(const CalibrateOptions& options, const std::string& id) {
  return options.only.empty() || std::any_of(options.only.begin(), options.only.end(), [&](const std::string& text) {
           return id.find(text) != std::string::npos;
         });
}

[[noreturn]] void none_wanted() {
  fail(ErrorKind::invalid_argument,
       "no problem has the text of --only in its name; names are like '(1,12,12,512,512,64) f16 causal'");
}

std::vector<GpuCase> grid_of(const CalibrateOptions& options) {
  std::vector<GpuCase> grid = options.softcap   ? gpu_capped_grid(*options.softcap)
                              : options.biased  ? gpu_biased_grid(*options.biased)
                              : options.grouped ? gpu_grouped_grid()
                              : options.regret  ? gpu_held_out_grid()
                                                : gpu_calibration_grid();
  std::erase_if(grid, [&](const GpuCase& one) { return !wanted(options, one.id()); });
  if (grid.empty()) none_wanted();
  if (options.quick) grid.resize(std::min<std::size_t>(3, grid.size()));
  return grid;
}

Json measured(const CalibrateOptions& options, const Device& device) {
  cuda::gpu_of(device);  // not a description of one
  Json run = describe_run(options.regret ? "calibrate --regret" : "calibrate", device);
  run["protocol"] = gpu_plan_times_protocol();
  BenchResults results(run, options.json, options.resume);
  const std::vector<GpuCase> grid = grid_of(options);
  Progress progress("measuring", std::ssize(grid));
  for (const GpuCase& one : grid) {
    if (results.find(one.id()) == nullptr) results.add(time_plans(one, device));
    progress.advance(1);
  }
  if (options.json != "-") results.finish();  // what is found besides is written with them
  return results.all();
}

[[noreturn]] void no_measurements(const std::string& file) {
  fail(ErrorKind::bad_file, "'{}' holds no measurements of `stof calibrate --device cuda --json`", file);
}

Json read_times(const CalibrateOptions& options) {
  const std::string& file = options.times;
  const FileMap map(file);
  Json times = Json::parse(map.text(), nullptr, false);
  if (!times.is_object() || !times.contains("rows") || !times["rows"].is_array() || times["rows"].empty())
    no_measurements(file);
  Json rows = Json::array();
  for (Json& row : times["rows"])
    if (wanted(options, row.at("id"))) rows.push_back(std::move(row));
  if (rows.empty()) none_wanted();
  times["rows"] = std::move(rows);
  return times;
}

cuda::CostSource source_of(const Json& times) {
  const auto text = [&](const char* key) { return times.contains(key) ? times[key].get<std::string>() : ""; };
  return {.device = text("device"),
          .driver = text("driver"),
          .clock = text("clock"),
          .commit = text("commit"),
          .day = text("day")};
}

// The built-in table, as C++.
void write_source(const cuda::NamedCosts& costs, const cuda::CostSource& source, const std::string& file) {
  AtomicFile out(file);
  out.append("// Costs of a GPU, in the order of the terms of cost_table.h. Written by `stof calibrate --source`.\n");
  out.append(
      fmt::format("{{.source = {{.device = \"{}\",\n            .driver = \"{}\",\n            .clock = \"{}\",\n"
                  "            .commit = \"{}\",\n            .day = \"{}\"}},\n .costs = {{\n",
                  source.device, source.driver, source.clock, source.commit, source.day));
  for (const auto& [name, values] : costs) {
    std::string terms;
    for (const double value : values) terms += fmt::format("{}{:.4g}", terms.empty() ? "" : ", ", value);
    out.append(fmt::format("     {{\"{}\", {{{}}}}},\n", name, terms));
  }
  out.append(" }}\n");
  out.commit();
}

// A prediction is of a GPU's multiprocessors and memory, and its costs are kept by its name.
void check_of_device(const Json& times, const CalibrateOptions& options, const Device& device) {
  const std::string measured = times.at("device");
  if (cuda::driver_name(measured) != cuda::driver_name(device.caps.name))
    fail(ErrorKind::invalid_argument,
         "'{}' has times of {}, --device {} is {}: costs of one GPU are not fitted to times of another; accepted with "
         "them: --regret",
         options.times, measured, options.device, device.caps.name);
}

std::vector<GpuFit> fits_of(const Json& times, const Device& device) {
  Progress progress("fitting", Progress::kUnknown);
  return fit_gpu_costs(times.at("rows"), device,
                       [&](std::int64_t done, std::int64_t total) { progress.set(done, total); });
}

void fit(const CalibrateOptions& options, Json times, const Device& device, bool print) {
  check_of_device(times, options, device);
  cuda::NamedCosts costs = cuda::of_instances(cuda::built_in_named_costs());
  Table table({"costs", "samples", "error"});
  times["fits"] = Json::array();
  for (const GpuFit& one : fits_of(times, device)) {
    costs[one.name] = one.costs;
    times["fits"].push_back(
        {{"name", one.name}, {"samples", one.samples}, {"error", one.error}, {"microseconds", one.costs}});
    table.add({one.name, fmt::format("{}", one.samples), fmt::format("{:.1f} %", 100 * one.error)});
  }
  if (!options.source.empty()) write_source(costs, source_of(times), options.source);
  const std::filesystem::path file =
      options.out.empty() ? cuda::calibration_file() : std::filesystem::path(options.out);
  if (options.source.empty() && options.keeps()) cuda::write_calibration(costs, source_of(times), file);
  if (!options.json.empty()) write_json(times, options.json);
  if (print)
    fmt::print("{}{}\n", table.text(),
               options.source.empty() ? kept_in(options, file) : fmt::format("kept in {}", options.source));
}

void report_regret(Json times, const CalibrateOptions& options, const Device& device, bool print) {
  const std::string measured = times.at("device");
  auto [found, not_judged] = regret_of(times.at("rows"), device);
  if (found.empty()) fail(ErrorKind::unsupported, "none of the choices is among the measured plans");
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.regret() > b.regret(); });
  double sum = 0;
  for (const GpuRegret& one : found) sum += one.regret();
  const double mean = sum / static_cast<double>(found.size());
  times["mean_regret"] = mean;
  times["worst_regret"] = found.front().regret();
  times["costs"] = cuda::costs_for(device.caps.name).source.starts_with("built in") ? "built in" : "measured here";
  times["judged_device"] = device.caps.name;
  times["judged_commit"] = build_commit();  // whose choice it is; "commit" is of what was timed
  times["regrets"] = Json::array();
  for (const GpuRegret& one : found)
    times["regrets"].push_back({{"id", one.id},
                                {"regret", one.regret()},
                                {"chosen", one.chosen},
                                {"chosen_us", one.chosen_us},
                                {"best", one.best},
                                {"best_us", one.best_us}});
  times["not_judged"] = Json::array();
  for (const NotJudged& one : not_judged) times["not_judged"].push_back({{"id", one.id}, {"chosen", one.chosen}});
  if (!options.json.empty()) write_json(times, options.json);
  if (!print) return;
  fmt::print("times of {}; choices for {}, by costs {}\n", measured, device.caps.name,
             cuda::costs_for(device.caps.name).source);
  if (!not_judged.empty())
    fmt::print("{} of {} problems; of {} the chosen plan was not timed\n", found.size(),
               found.size() + not_judged.size(), not_judged.size());
  fmt::print("{} problems, mean regret {:.1f} %, worst {:.1f} %:\n", found.size(), 100 * mean,
             100 * found.front().regret());
  Table table({"problem", "regret", "chosen us", "best us", "chosen", "best"});
  for (std::size_t i = 0; i < std::min<std::size_t>(8, found.size()); ++i)
    table.add({found[i].id.substr(0, 60), fmt::format("{:.1f} %", 100 * found[i].regret()),
               fmt::format("{:.1f}", found[i].chosen_us), fmt::format("{:.1f}", found[i].best_us), found[i].chosen,
               found[i].best});
  fmt::print("{}", table.text());
}

void use(const CalibrateOptions& options, const Json& times, const Device& device) {
  const bool print = options.json != "-";
  if (options.regret) return report_regret(times, options, device, print);
  if (!options.only_measures()) return fit(options, times, device, print);
  if (!print) return write_json(times, options.json);
  fmt::print("{} problems measured, in {}; no costs are fitted to a part\n", times.at("rows").size(), options.json);
}

}  // namespace

void calibrate_gpu(const CalibrateOptions& options, const Device& device) {
  if (options.times.empty()) return use(options, measured(options, device), device);
  try {
    use(options, read_times(options), device);
  } catch (const Json::exception&) {  // another program's rows, or another command's
    no_measurements(options.times);
  }
}

}  // namespace stof::cli
