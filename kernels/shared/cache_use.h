// SPDX-License-Identifier: Apache-2.0
// What becomes of a matrix after a kernel has read or written it, for the L2 to keep what is worth it. Hints: results
// are the same bits.
#pragma once

namespace stof::cuda {

enum CacheUseCode : int {
  kUnknownUse,
  kReadOnce,   // its lines leave the cache first
  kReadAgain,  // and last
};

}  // namespace stof::cuda
