// SPDX-License-Identifier: Apache-2.0
// Matmul on the CPU: by our own kernel (matmul/panels.cpp), or by oneDNN (onednn.cpp) what they do not take.
#pragma once
#include <memory>

#include "kernels/cpu/linear.h"
#include "src/backend/operations.h"

namespace stof::cpu {

extern const MatmulOperations matmul_operations;

// Weights packed by one of the two.
class Linear {
 public:
  virtual ~Linear() = default;
  virtual void run(const LinearCall& call) const = 0;
};

LinearActivation linear_activation(Activation activation);

bool panels_take(DType dtype);
std::shared_ptr<const Linear> pack_panels(const LinearSpec& spec);
std::shared_ptr<const Linear> pack_onednn(const LinearSpec& spec);

}  // namespace stof::cpu
