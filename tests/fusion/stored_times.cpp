// SPDX-License-Identifier: Apache-2.0
#include "tests/fusion/stored_times.h"

#include <fstream>

namespace stof {
namespace {

using Json = nlohmann::json;

constexpr const char* kPlans = "h200-fusion.json";
constexpr const char* kMatmuls = "9235f2c-h200-gemm.json";

std::string key_of(std::int64_t rows, const std::string& work) { return std::to_string(rows) + " " + work; }

std::string matmul(std::int64_t rows, std::int64_t inner, std::int64_t columns, const std::string& pack) {
  return key_of(rows, std::to_string(inner) + ">" + std::to_string(columns) + " " + pack);
}

std::string matmul_of(const Work& work, std::int64_t rows) {
  const auto* linear = std::get_if<op::Linear>(&work.node.op);
  if (linear == nullptr) return {};
  const bool deferred = linear->x_norm || linear->residual_norm || linear->moments;
  return matmul(rows, work.graph.value(work.node.inputs[0]).columns, work.graph.value(work.node.output).columns,
                deferred ? "deferred" : "epilogue");
}

}  // namespace

Json stored_results(const std::string& name) {
  std::ifstream file(std::string(STOF_SOURCE_DIR) + "/bench/results/" + name);
  return Json::parse(file);
}

StoredTimes::StoredTimes(bool with_plans) {
  const Json plans = stored_results(kPlans), matmuls = stored_results(kMatmuls);
  if (with_plans)
    for (const Json& row : plans.at("rows"))
      for (const Json& work : row.at("plan").at("works"))
        if (work.at("runs").get<int>() > 0)
          us_[key_of(row.at("plan").at("key").at("rows"), work.at("work"))][work.at("setting")] = work.at("us");
  for (const Json& row : matmuls.at("rows"))
    us_[matmul(row.at("rows"), row.at("inner"), row.at("columns"), row.at("pack"))][row.at("setting")] =
        row.at("cold_us");
}

std::optional<double> StoredTimes::of(const Work& work, const std::string& setting, std::int64_t rows) const {
  for (const std::string& name : {key_of(rows, work.text), matmul_of(work, rows)})
    if (const auto timed = us_.find(name); timed != us_.end())
      if (const auto found = timed->second.find(setting); found != timed->second.end()) return found->second;
  return std::nullopt;
}

}  // namespace stof
