// SPDX-License-Identifier: Apache-2.0
// stof plans: what `stof tune` has kept: list it, look at it, check it, carry it elsewhere.
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/messages.h"
#include "cli/table.h"
#include "src/base/counted.h"
#include "src/base/error.h"
#include "src/base/threads.h"
#include "src/fusion/plan_cache.h"
#include "src/fusion/plan_model.h"
#include "src/model/file_map.h"

namespace stof::cli {
namespace {

PlanCache cache() {
  return PlanCache(
      {.folder = plan_folder(), .log = [](std::string_view message) { say(fmt::format("stof: {}\n", message)); }});
}

std::string problem_on(const Device& device, const FusionPlan& plan) {
  const PlanKey& key = plan.key;
  PlanKey here = on_device(key, device);
  // A call takes other numbers of a processor's cores where it is told to.
  if (key.cuda.empty() && key.cores <= usable_processors()) here.cores = key.cores;
  const std::string other = difference(key, here);
  return other.empty() ? wrong_setting(plan, device) : other;
}

// Why no session of this machine uses the plan: it was made on another one, or names what there is not here. Of several
// GPUs one that has no problem with it is enough.
std::string problem_here(const FusionPlan& plan) {
  std::string first;
  for (int ordinal = 0;; ++ordinal) {
    try {
      const bool is_gpu = !plan.key.cuda.empty();
      const std::string problem = problem_on(open_device(is_gpu ? fmt::format("cuda:{}", ordinal) : "cpu"), plan);
      if (problem.empty() || !is_gpu) return problem;
      if (first.empty()) first = problem;
    } catch (const Error& error) {
      if (!first.empty()) return first;
      return fmt::format("device is '{}'; here there is none: {}", plan.key.device, error.what());
    }
  }
}

// What a plan without a problem is used by.
std::string use_of(const PlanKey& key) {
  const bool is_default = !key.cuda.empty() || key.cores == omp_get_max_threads();
  return is_default ? "used" : fmt::format("used with --threads {}", key.cores);
}

std::string problem_of(const PlanEntry& entry) { return entry.plan ? problem_here(*entry.plan) : entry.problem; }

void list(const std::string& json) {
  const std::vector<PlanEntry> entries = cache().entries();
  Table table({"name", "model", "up to", "dtype", "mask", "device", "us", "origin", "state"});
  Json rows = Json::array();
  for (const PlanEntry& entry : entries) {
    const std::string problem = problem_of(entry);
    if (!entry.plan) {
      table.add({entry.name.substr(0, 8), "-", "-", "-", "-", "-", "-", "-", problem});
      rows.push_back({{"name", entry.name}, {"problem", problem}});
      continue;
    }
    const FusionPlan& plan = *entry.plan;
    double us = 0;
    for (const ConfirmedTime& time : plan.confirmed)
      if (time.what == plan.origin) us = time.us;
    table.add({entry.name.substr(0, 8), plan.model, fmt::format("{} x {}", plan.key.texts, plan.key.longest),
               plan.key.dtype, plan.mask, plan.key.device, fmt::format("{:.1f}", us), plan.origin,
               problem.empty() ? use_of(plan.key) : "not used: " + problem});
    rows.push_back({{"name", entry.name}, {"problem", problem}, {"plan", to_json(plan)}});
  }
  if (!json.empty()) write_json({{"folder", cache().folder().string()}, {"plans", rows}}, json);
  if (json != "-") fmt::print("{}", table.text());
}

void show(const std::string& name) {
  const PlanEntry entry = cache().entry(name);
  if (!entry.plan) fail(ErrorKind::bad_file, "plan {}: {}", entry.name, entry.problem);
  write_json(to_json(*entry.plan), "-");
}

// Every plan can be read and is this machine's; the exit code says so.
void verify() {
  int bad = 0;
  for (const PlanEntry& entry : cache().entries()) {
    const std::string problem = problem_of(entry);
    bad += problem.empty() ? 0 : 1;
    fmt::print("{}  {}\n", entry.name.substr(0, 8), problem.empty() ? "good" : problem);
  }
  if (bad > 0)
    fail(ErrorKind::bad_file, "{} of '{}' {} not used here", counted(bad, "plan", "plans"), cache().folder().string(),
         bad == 1 ? "is" : "are");
}

void export_plan(const std::string& name, const std::string& file) {
  const PlanEntry entry = cache().entry(name);
  if (!entry.plan) fail(ErrorKind::bad_file, "plan {}: {}", entry.name, entry.problem);
  write_json(to_json(*entry.plan), file);
}

void import_plan(const std::string& file) {
  const FusionPlan plan = plan_from_json(FileMap(file).text(), file);
  if (const std::string problem = problem_here(plan); !problem.empty())
    fail(ErrorKind::unsupported, "{}: {}", file, problem);
  cache().keep(plan);
  fmt::print("kept as {}\n", plan.key.fingerprint().hex().substr(0, 8));
}

}  // namespace

void add_plans(CLI::App& app) {
  struct Options {
    std::string name, file, json;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* plans = app.add_subcommand("plans", "List, show, verify, export and import what `stof tune` has kept");
  plans->require_subcommand(0, 1);  // without one: main.cpp says which there are
  CLI::App* listed = plans->add_subcommand(
      "list",
      "Show every plan with its bucket of calls, texts x tokens of the longest at most, and why one is not used here");
  listed->add_option("--json", options->json, "as JSON, into a file, or - for stdout");
  listed->callback([options] { list(options->json); });
  CLI::App* shown = plans->add_subcommand("show", "Show one plan as JSON");
  shown->add_option("name", options->name, "the beginning of its name")->required();
  shown->callback([options] { show(options->name); });
  plans->add_subcommand("verify", "Read every plan; exit code 2 where one is not used here")->callback(verify);
  CLI::App* exported = plans->add_subcommand("export", "Write one plan into a file");
  exported->add_option("name", options->name, "the beginning of its name")->required();
  exported->add_option("--out", options->file, "the file")->required();
  exported->callback([options] { export_plan(options->name, options->file); });
  CLI::App* imported = plans->add_subcommand("import", "Keep a plan that another process of this machine has written");
  imported->add_option("file", options->file, "the file")->required();
  imported->callback([options] { import_plan(options->file); });
}

}  // namespace stof::cli
