// SPDX-License-Identifier: Apache-2.0
// Which settings take a matmul, why the others do not, and how long each should take.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "src/backend/operations.h"
#include "stof/device.h"

namespace stof::cuda {

// What a choice depends on: sizes and the kinds of operands, without their addresses.
struct MatmulProblem {
  std::int64_t rows = 0, columns = 0, inner = 0;  // columns: of the product, before a gate halves them
  DType dtype = DType::f32;
  Activation activation = Activation::none;
  bool bias = false, residual = false, x_norm = false, residual_norm = false, moments = false, gate = false;
  bool few_rows = false, own_norm = false, own_shift = false;
  TurnedHeads turned = {};  // none: no heads
  std::int64_t out_columns() const { return gate ? columns / 2 : columns; }
};
MatmulProblem problem_of(const LinearSpec& spec, std::int64_t rows);

// Shared memory of a CTA, how many CTAs find theirs on an SM, and how many of one kernel an SM works on.
std::int64_t shared_bytes_of(const MatmulSetting& setting);
int most_ctas_of(const MatmulSetting& setting);
int ctas_of(const MatmulSetting& setting);

// Shared memory of a CTA of kernels/cuda/gemv.cuh, and how many of them an SM has.
std::int64_t gemv_shared_bytes(const MatmulProblem& problem, const MatmulSetting& setting);
int gemv_ctas(const MatmulProblem& problem, const MatmulSetting& setting);

// Every tile that kernels/cuda/gemm.cuh is made for, each with every split and every share.
const std::vector<MatmulSetting>& wgmma_settings();

// The same of kernels/cuda/mma_gemm.cuh, and of kernels/cuda/gemv.cuh.
const std::vector<MatmulSetting>& mma_settings();
const std::vector<MatmulSetting>& gemv_settings();
// The one of them that takes the problem in the shortest predicted time; nothing where none takes it.
std::optional<MatmulSetting> best_gemv(const MatmulProblem& problem, const DeviceCaps& device);

std::optional<std::string> refuses(const MatmulProblem& problem, const DeviceCaps& device,
                                   const MatmulSetting& setting);
// False where no device has been seen to gain by it: such a setting runs when it is asked for by name, and is not among
// settings_of.
bool is_listed(const MatmulSetting& setting);
// Every reason, a line each: what a user reads when no setting takes the problem.
std::string refusals_of(const MatmulProblem& problem, const DeviceCaps& device);

// Of no rows or no columns it is that of a launch.
double predicted_us(const MatmulProblem& problem, const DeviceCaps& device, const MatmulSetting& setting);

// Those that are listed and do not refuse, by predicted time; and whether there is one.
std::vector<MatmulChoice> settings_of(const MatmulProblem& problem, const DeviceCaps& device);
bool any_takes(const MatmulProblem& problem, const DeviceCaps& device);

}  // namespace stof::cuda
