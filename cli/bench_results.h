// SPDX-License-Identifier: Apache-2.0
// The file of results of `stof bench`: what was measured on, and a row for each thing measured. The file is written
// again after every row, so that what was measured is kept whatever happens, and a later run can go on from it.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/json_output.h"
#include "stof/device.h"

namespace stof::cli {

// Commit, day, processor, threads, load: what results need to be compared.
Json describe_run(std::string_view command, const Device& device);

class BenchResults {
 public:
  // `file`: empty for none, "-" for stdout when finish() is called. `resume`: rows of the file are kept; throws
  // invalid_argument when they are of another commit, device or number of threads, bad_file when they cannot be read.
  BenchResults(Json run, std::string file, bool resume);

  // Each row has an "id", which names what is measured. Null: not measured yet.
  const Json* find(std::string_view id) const;
  // Before anything is measured: throws bad_file where `cells` cannot be made of a row that the file has.
  void check(const std::string& id, const std::function<std::vector<std::string>(const Json&)>& cells) const;
  void add(Json row);
  void set(const std::string& key, Json value) { results_[key] = std::move(value); }  // beside the rows
  void finish() const;
  const Json& all() const { return results_; }

 private:
  void read_earlier();
  Json& rows() { return results_["rows"]; }

  Json results_;
  std::string file_;
};

}  // namespace stof::cli
