// SPDX-License-Identifier: Apache-2.0
// Times of an H200 that were stored: those of the works of tuned plans, and those of single matmuls, cold.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "src/fusion/search.h"

namespace stof {

// Of a file in bench/results.
nlohmann::json stored_results(const std::string& name);

class StoredTimes {
 public:
  // Of matmuls alone, or of tuned plans' works too.
  explicit StoredTimes(bool with_plans = true);

  // Of a work as it is, or of a matmul of its size with as much to do before it is stored: gelu stands for GPT-2's,
  // whose polynomial has as many instructions.
  std::optional<double> of(const Work& work, const std::string& setting, std::int64_t rows) const;

 private:
  std::map<std::string, std::map<std::string, double>> us_;  // by what was timed, and by setting
};

}  // namespace stof
