// SPDX-License-Identifier: Apache-2.0
// Division by what the host does not know, in place of some forty instructions (Divisor: by what it does).
#pragma once

namespace stof::cuda {

// Of numbers below 2^18, by which half of one is more than the quotient errs; of larger ones it may be one off.
__device__ __forceinline__ int quick_quotient(int number, int by) {
  return static_cast<int>(__fdividef(static_cast<float>(number) + 0.5f, static_cast<float>(by)));
}

}  // namespace stof::cuda
