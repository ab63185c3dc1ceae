// SPDX-License-Identifier: Apache-2.0
// The file of a calibration.
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "src/backend/cuda/attention/cost_table.h"
#include "src/backend/cuda/driver/device.h"
#include "src/base/atomic_file.h"
#include "src/base/env.h"
#include "src/base/error.h"

namespace stof::cuda {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 5;         // of the file: changes with the terms and with what they are of
constexpr double kMostCost = 1e6;  // a second, for what takes microseconds

std::size_t terms_of(const std::string& key) {
  if (key.starts_with("band_")) return BandTerm::count;
  if (key == "decode") return DecodeTerm::count;
  return ListTerm::count;
}

bool read(const Json& json, NamedCosts& costs) {
  if (!json.is_object()) return false;
  for (const auto& [key, values] : json.items()) {
    if (!values.is_array() || values.size() != terms_of(key)) return false;
    std::vector<double>& to = costs[key];
    to.clear();
    for (const Json& value : values) {
      if (!value.is_number() || !(value.get<double>() >= 0 && value.get<double>() <= kMostCost)) return false;
      to.push_back(value.get<double>());
    }
  }
  return true;
}

std::string text_of(const Json& from, const char* name) {
  const auto found = from.find(name);
  return found != from.end() && found->is_string() ? found->get<std::string>() : "";
}

// `why_not`: why a file's costs are not used; empty where there is none.
CostsInUse built_in(const std::string& why_not = "") {
  return {
      .table = table_of(built_in_named_costs(), built_in_source()),
      .source = fmt::format("built in, of an {}{}{}", built_in_source().device, why_not.empty() ? "" : ": ", why_not),
      .ignored = !why_not.empty()};
}

}  // namespace

std::filesystem::path calibration_file() { return cache_folder() / "cuda-attention.json"; }

void write_calibration(const NamedCosts& costs, const CostSource& source, const std::filesystem::path& file) {
  const Json json{{"format", kFormat},     {"device", source.device}, {"driver", source.driver},
                  {"clock", source.clock}, {"commit", source.commit}, {"day", source.day},
                  {"microseconds", costs}};
  std::error_code made;  // what cannot be made is said when the file is
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), made);
  AtomicFile out(file);
  out.append(json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  out.commit();
}

CostsInUse read_costs(const std::filesystem::path& file, std::string_view device) {
  std::error_code unreadable;
  if (!std::filesystem::is_regular_file(file, unreadable)) return built_in();
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  const Json json = Json::parse(text.str(), nullptr, false);
  NamedCosts costs = built_in_named_costs();  // for instances that the file does not have
  if (!json.is_object() || json.value("format", Json()) != Json(kFormat) ||
      !read(json.value("microseconds", Json()), costs))
    return built_in(fmt::format("{} is no calibration of format {}; `stof calibrate --device cuda` writes one",
                                file.string(), kFormat));
  CostSource source{.device = text_of(json, "device"),
                    .driver = text_of(json, "driver"),
                    .clock = text_of(json, "clock"),
                    .commit = text_of(json, "commit"),
                    .day = text_of(json, "day")};
  if (driver_name(source.device) != driver_name(device))
    return built_in(fmt::format("{} was measured on {}, this is {}", file.string(), source.device, device));
  std::string said = fmt::format("measured here on {} ({})", source.day, file.string());
  return {.table = table_of(costs, std::move(source)), .source = std::move(said)};
}

}  // namespace stof::cuda
