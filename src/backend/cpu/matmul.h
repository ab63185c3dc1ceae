// SPDX-License-Identifier: Apache-2.0
// Matmul on the CPU: by our own kernel (matmul/panels.cpp), or, in bf16 where there are matrix registers, by oneDNN
// (onednn.cpp).
#pragma once
#include <memory>
#include <string>

#include "kernels/cpu/linear.h"
#include "src/backend/operations.h"
#include "stof/device.h"

namespace stof::cpu {

extern const MatmulOperations matmul_operations;

// Whether our own kernels multiply bf16 by the dot product of pairs. Where there are matrix registers, oneDNN
// multiplies by them, and so does attention but for head dimensions that its tiles do not divide: there pairs took 1.2
// to 1.6 times what widened numbers take, on the one such processor measured (bench/results/cpu-bf16-pairs.json).
inline bool multiplies_pairs(const DeviceCaps& caps) { return caps.bf16_dot && !caps.bf16_matrix; }

// Weights packed by one of the two.
class Linear {
 public:
  virtual ~Linear() = default;
  virtual void run(const LinearCall& call) const = 0;
  virtual PackedMatrix matrix() const = 0;  // LinearSpec::matrix of others by the same of the two
};

LinearActivation linear_activation(Activation activation);

// How panels multiply bf16: two numbers at once, which needs AVX512_BF16, or each widened to a float.
enum class Bf16Words : std::uint8_t { pairs, widened };

std::shared_ptr<const Linear> pack_panels(const LinearSpec& spec, Bf16Words words);
std::shared_ptr<const Linear> pack_onednn(const LinearSpec& spec);
std::string onednn_version();  // "oneDNN 3.1.1"

}  // namespace stof::cpu
