// SPDX-License-Identifier: Apache-2.0
// From the measured plans of a grid to the costs of every instance, and what a choice by given costs loses.
#pragma once
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
std::vector<GpuFit> fit_gpu_costs(const Json& rows, const Device& device);

struct GpuRegret {
  std::string id;
  std::string chosen, best;  // instances
  double chosen_us = 0, best_us = 0;
  double regret() const { return chosen_us / best_us - 1; }
};

// Of the choice that the device makes now. Rows whose choice was not measured are left out.
std::vector<GpuRegret> regret_of(const Json& rows, const Device& device);

}  // namespace stof::cli
