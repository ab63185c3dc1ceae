// SPDX-License-Identifier: Apache-2.0
// The fastest matmul of this machine, kept so that it can be run again beside what is compared with it.
#pragma once
#include <cstdint>
#include <memory>

#include "src/backend/cpu/matmul.h"
#include "stof/tensor.h"

namespace stof::cli {

// On the host, with all its threads, on operands at random, as those of models are.
class PeakMatmul {
 public:
  // Of a few sizes and of both kernels, our own and oneDNN's, the fastest. Takes half a second.
  explicit PeakMatmul(DType dtype);

  // Of the fastest call then.
  double best_gflops() const { return gflop_ / best_us_ * 1e6; }
  // Of as many calls as take so many seconds now, at least three, together.
  double gflops_now(double seconds) const;

 private:
  void try_size(std::int64_t rows, std::int64_t in, std::int64_t out, DType dtype);

  std::shared_ptr<const cpu::Linear> linear_;
  Tensor x_, out_;
  double gflop_ = 0, best_us_ = 0;
};

}  // namespace stof::cli
