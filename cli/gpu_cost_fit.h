// SPDX-License-Identifier: Apache-2.0
// From the measured plans of a grid to the costs of every instance, and what a choice by given costs loses.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/json_output.h"
#include "src/backend/cuda/attention/cost_table.h"
#include "stof/device.h"

namespace stof::cli {

struct GpuFit {
  std::string name;  // as in NamedCosts
  std::vector<double> costs;
  int samples = 0;
  double error = 0;  // root of the mean square of log(predicted / measured), near-best plans counting more
};

// rows: as time_plans writes them. Instances without samples keep the built-in costs and are not among the fits.
// `progress` is called from several threads, one at a time.
std::vector<GpuFit> fit_gpu_costs(const Json& rows, const Device& device,
                                  const std::function<void(std::int64_t done, std::int64_t total)>& progress);

struct GpuRegret {
  std::string id;
  std::string chosen, best;  // instances
  double chosen_us = 0, best_us = 0;
  double regret() const { return chosen_us / best_us - 1; }
};

struct NotJudged {
  std::string id, chosen;
};

// Of the choice that the device makes now, in the order of the rows.
struct GpuRegrets {
  std::vector<GpuRegret> judged;
  std::vector<NotJudged> not_judged;  // rows whose choice was not measured
};
GpuRegrets regret_of(const Json& rows, const Device& device);

}  // namespace stof::cli
