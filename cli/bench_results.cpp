// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_results.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <stdlib.h>

#include <ctime>
#include <filesystem>

#include "cli/build_commit.h"
#include "cli/machine.h"
#include "src/backend/contract.h"
#include "src/base/error.h"
#include "src/model/file_map.h"

namespace stof::cli {
namespace {

// What two runs must have in common for their rows to stand in one table.
constexpr std::array kSame = {"command", "commit", "device", "threads"};

double load_of_last_minute() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : 0;
}

}  // namespace

Json describe_run(std::string_view command, const Device& device) {
  const CpuFacts cpu = probe_cpu();
  const GpuFacts gpu = device.backend->memory == nullptr ? GpuFacts{} : probe_gpu();
  Json run{{"command", command},         {"version", STOF_VERSION},
           {"commit", build_commit()},   {"day", fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)))},
           {"device", device.caps.name}, {"threads", device.caps.cores},
           {"processor", cpu.name},      {"load", load_of_last_minute()}};
  if (gpu.driver) run["driver"] = *gpu.driver;
  if (gpu.cuda) run["cuda"] = *gpu.cuda;
  if (!gpu.devices.empty() && gpu.devices[0].clock_mhz > 0)
    run["clock"] = fmt::format("{} MHz, memory {} MHz", gpu.devices[0].clock_mhz, gpu.devices[0].memory_clock_mhz);
  return run;
}

BenchResults::BenchResults(Json run, std::string file, bool resume) : results_(std::move(run)), file_(std::move(file)) {
  results_["rows"] = Json::array();
  if (!resume) return;
  if (file_.empty() || file_ == "-")
    fail(ErrorKind::invalid_argument, "--resume goes on with a file: --json FILE names it");
  std::error_code ignored;
  if (std::filesystem::exists(file_, ignored)) read_earlier();
}

void BenchResults::read_earlier() {
  const FileMap map(file_);
  Json earlier = Json::parse(map.text(), nullptr, false);
  if (!earlier.is_object() || !earlier.contains("rows") || !earlier["rows"].is_array())
    fail(ErrorKind::bad_file, "'{}' is no file of results: no object with rows", file_);
  for (const char* key : kSame)
    if (earlier.value(key, Json()) != results_[key])
      fail(ErrorKind::invalid_argument, "'{}' was measured with {} {}; this run has {}", file_, key,
           earlier.value(key, Json()).dump(), results_[key].dump());
  for (Json& row : earlier["rows"])
    if (!row.is_object() || !row.contains("id"))
      fail(ErrorKind::bad_file, "'{}' is no file of results: a row without id", file_);
    else rows().push_back(std::move(row));
}

const Json* BenchResults::find(std::string_view id) const {
  for (const Json& row : results_.at("rows"))
    if (row.at("id") == id) return &row;
  return nullptr;
}

void BenchResults::check(const std::string& id,
                         const std::function<std::vector<std::string>(const Json&)>& cells) const {
  const Json* const row = find(id);
  if (row == nullptr) return;
  try {
    cells(*row);
  } catch (const Json::exception& error) {
    const std::string_view what = error.what();  // "[json.exception.NAME] ..."
    fail(ErrorKind::bad_file, "'{}': row '{}' is not as `stof {}` writes it: {}", file_, id,
         results_.at("command").get<std::string>(), what.substr(what.find("] ") + 2));
  }
}

void BenchResults::add(Json row) {
  rows().push_back(std::move(row));
  if (!file_.empty() && file_ != "-") write_json(results_, file_);
}

void BenchResults::finish() const {
  if (!file_.empty()) write_json(results_, file_);
}

}  // namespace stof::cli
