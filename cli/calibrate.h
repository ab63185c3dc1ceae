// SPDX-License-Identifier: Apache-2.0
// stof calibrate: of the CPU in calibrate.cpp, of a GPU in calibrate_gpu.cpp.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stof/device.h"

namespace stof::cli {

struct CalibrateOptions {
  std::string device = "auto", json, out, times, source;
  std::vector<std::string> only;  // what problems have in their names, one of them; empty: all problems
  bool regret = false, quick = false, resume = false;
  std::optional<float> softcap;        // problems whose scores are capped, in place of the others
  std::optional<std::int64_t> biased;  // problems with a relative bias of this reach, in place of the others
  bool grouped = false;                // problems whose query heads share keys, in place of the others

  // Costs of a part of the problems are not for every later choice: the measurements are, unless the costs' file is
  // named.
  bool only_measures() const { return !only.empty() && !regret && out.empty() && source.empty(); }
  bool keeps() const { return !quick || !out.empty(); }
};

// The last line of a fit: where its costs are kept, or why they are not.
std::string kept_in(const CalibrateOptions& options, const std::filesystem::path& file);

void calibrate_gpu(const CalibrateOptions& options, const Device& device);

}  // namespace stof::cli
