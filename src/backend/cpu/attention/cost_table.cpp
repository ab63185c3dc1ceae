// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cpu/attention/cost_table.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "src/backend/cpu/matmul.h"
#include "src/base/atomic_file.h"
#include "src/base/env.h"
#include "src/base/error.h"
#include "stof/device.h"

namespace stof::cpu {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;  // of the file: changes with the terms
constexpr const char* kFile = "cpu-attention.json";
constexpr double kMostCost = 1e9;  // a second, for what takes nanoseconds

// `stof calibrate` on an AVX-512 processor at 3.7 GHz (bench/results/cpu-attention-cost.json). Ratios travel to other
// machines, which is all that a choice needs.
constexpr BlockCosts kBlockF32 = {36.7, 0.38, 0, 0.102, 229, 0.291, 0.0332};
constexpr BlockCosts kBlockF16 = {0, 0.381, 0, 0.193, 269, 0.289, 0.0328};
constexpr BlockCosts kBlockBf16 = {171, 0.424, 0, 0.0937, 227, 0.29, 0.0161};
constexpr RowCosts kRowF32 = {46.1, 0.174, 2.75, 0.0523};
constexpr RowCosts kRowF16 = {44, 0.216, 3.02, 0.0616};
constexpr RowCosts kRowBf16 = {49.3, 0.296, 3.31, 0.0618};

template <std::size_t kTerms>
bool read(const Json& from, const char* name, std::array<double, kTerms>& to) {
  const auto found = from.find(name);
  if (found == from.end() || !found->is_array() || found->size() != kTerms) return false;
  double sum = 0;
  for (std::size_t i = 0; i < kTerms; ++i) {
    const Json& value = (*found)[i];
    if (!value.is_number() || !(value.get<double>() >= 0 && value.get<double>() <= kMostCost)) return false;
    to[i] = value.get<double>();
    sum += to[i];
  }
  return sum > 0;  // no work costs nothing
}

std::string text_of(const Json& from, const char* name) {
  const auto found = from.find(name);
  return found != from.end() && found->is_string() ? found->get<std::string>() : "";
}

bool read_table(const Json& json, CostTable& table) {
  if (!json.is_object() || json.value("format", Json()) != Json(kFormat)) return false;
  table.device = text_of(json, "device");
  table.processor = text_of(json, "processor");
  table.commit = text_of(json, "commit");
  table.day = text_of(json, "day");
  const auto costs = json.find("nanoseconds");
  return costs != json.end() && costs->is_object() && read(*costs, "block_f32", table.block_f32) &&
         read(*costs, "block_f16", table.block_f16) && read(*costs, "block_bf16", table.block_bf16) &&
         read(*costs, "row_f32", table.row_f32) && read(*costs, "row_f16", table.row_f16) &&
         read(*costs, "row_bf16", table.row_bf16);
}

CostsInUse ignored(const std::filesystem::path& file, const std::string& why) {
  return {.table = built_in_costs(), .source = fmt::format("built in: {} {}", file.string(), why), .ignored = true};
}

}  // namespace

const CostTable& built_in_costs() {
  static const bool pairs = multiplies_pairs(open_device("cpu").caps);  // else bf16 is widened, as f16 is
  static const CostTable table{.block_f32 = kBlockF32,
                               .block_f16 = kBlockF16,
                               .block_bf16 = pairs ? kBlockBf16 : kBlockF16,
                               .row_f32 = kRowF32,
                               .row_f16 = kRowF16,
                               .row_bf16 = kRowBf16};
  return table;
}

std::filesystem::path calibration_file() { return cache_folder() / kFile; }

void write_calibration(const CostTable& table, const std::filesystem::path& file) {
  const Json json{{"format", kFormat},
                  {"device", table.device},
                  {"processor", table.processor},
                  {"commit", table.commit},
                  {"day", table.day},
                  {"nanoseconds",
                   {{"block_f32", table.block_f32},
                    {"block_f16", table.block_f16},
                    {"block_bf16", table.block_bf16},
                    {"row_f32", table.row_f32},
                    {"row_f16", table.row_f16},
                    {"row_bf16", table.row_bf16}}}};
  std::error_code made;  // what cannot be made is said when the file is
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), made);
  AtomicFile out(file);
  out.append(json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  out.commit();
}

CostsInUse read_costs(const std::filesystem::path& file) {
  std::error_code unreadable;
  if (!std::filesystem::is_regular_file(file, unreadable)) return {.table = built_in_costs(), .source = "built in"};
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  CostTable table = built_in_costs();
  if (!read_table(Json::parse(text.str(), nullptr, false), table))
    return ignored(file, fmt::format("is no calibration of format {}; `stof calibrate` writes one", kFormat));
  const std::string device = open_device("cpu").caps.name;
  if (table.device != device || table.processor != processor_name())
    return ignored(file, fmt::format("was measured on {} ({}), this is {} ({})", table.processor, table.device,
                                     processor_name(), device));
  std::string source = fmt::format("measured here on {} ({})", table.day, file.string());
  return {.table = std::move(table), .source = std::move(source)};
}

const CostsInUse& costs_in_use() {
  static const CostsInUse costs = read_costs(cache_folder_as_it_is() / kFile);
  return costs;
}

std::string processor_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);)
    if (line.starts_with("model name") && line.find(": ") != std::string::npos) return line.substr(line.find(": ") + 2);
  return "unknown";
}

}  // namespace stof::cpu
