// SPDX-License-Identifier: Apache-2.0
// What the kernel for products of few rows reads. Matrices are contiguous, of 16 bits, at multiples of 16 bytes.
#pragma once
#include "kernels/shared/activation.h"

namespace stof::cuda {

// out = activation(norm(x) weight^T + bias) + residual; or, of a gate, activation(its half) * the other half.
struct GemvParams {
  const void* x;         // [rows, inner]
  const void* weight;    // [columns, inner]; of a gate [columns / kTile][2][kTile, inner]: it, what it lets through
  const float* bias;     // in the order of the weight's rows, or null
  const void* residual;  // [rows, columns], or null; may be out
  void* out;             // [rows, columns]
  const float* scale;    // [inner], of the norm of x
  const float* shift;    // [inner], or null: the norm is by the root mean square
  float epsilon;
  int activation;  // ActivationCode
  int rows, columns, inner;
};

// What a kernel is compiled with: a norm of x, and a gate.
enum GemvParts { kGemvNorm = 1, kGemvGate = 2 };

struct GemvGrid {
  static constexpr int kMostRows = 16, kSlabRows = 8;
  static constexpr int kMostX = 57344;  // numbers: with more, CTAs take as long to bring x as to read weights
  static constexpr int kWarps = 8, kThreads = 32 * kWarps;
  static constexpr int kTile = 8;       // rows of the weight
  static constexpr int kMostTiles = 4;  // of a CTA at a time: a power of two
  static constexpr int kChunk = 64;     // elements of each that a warp takes at a time
  // A warp has 8 / tiles chunks on their way together; those of all warps take this much shared memory.
  static constexpr int kChunkBytes = kWarps * 8 * kTile * kChunk * 2;
  // Behind them lie what warps have summed up of the tiles, x, and the vectors of a norm: gemv_shared_bytes of the
  // host.
  static constexpr int kStaticBytes = 1024;                      // beside all that, at most
  static constexpr int kCtas[kMostTiles + 1] = {0, 3, 3, 0, 2};  // of an SM, by tiles: what registers allow
};

}  // namespace stof::cuda
