// SPDX-License-Identifier: Apache-2.0
// Attention of few rows over few keys (kernels/cuda/few_keys.cuh): how the keys of a launch are shared out, and what it
// is predicted to take.
#pragma once
#include <cstdint>
#include <string>

#include "kernels/shared/few_keys.h"
#include "stof/device.h"
#include "stof/tensor.h"

namespace stof::cuda {

// What a launch has to do.
struct FewKeysLoad {
  std::int64_t tasks;  // CTAs, or clusters: one for each key head of each item
  std::int64_t keys;   // that one has, at most
  std::int64_t slabs = 1;
  std::int64_t head_dim;  // of the instance: 64, 128 or 256
  double bytes;           // of keys and values, each once
};

// How the keys of a task are shared out.
struct FewKeysSplit {
  int ranks = 1;   // CTAs
  int stages = 1;  // groups of keys that a warp has on their way
  int rounds = 1;  // groups of a warp, one after the other
  int waves = 1;   // of CTAs
  double predicted_us = 0;
  int warp_bytes = 0;    // FewKeysParams
  int shared_bytes = 0;  // of a CTA
};
// The device's shared memory for a CTA has room for one stage (fits_few_keys).
FewKeysSplit split_few_keys(const FewKeysLoad& load, const DeviceCaps& caps);

// Whether a GPU of these capabilities has the shared memory.
bool fits_few_keys(std::int64_t head_dim, std::int64_t slabs, const DeviceCaps& caps);
// That split_few_keys may ask for.
int most_shared_bytes(std::int64_t head_dim, std::int64_t slabs, const DeviceCaps& caps);

// f16 or bf16.
std::string few_keys_unit(DType dtype);
std::string few_keys_entry(DType dtype, std::int64_t head_dim, std::int64_t slabs);
// FewKeysTraits, as entry points spell it.
std::string few_keys_traits(DType dtype, std::int64_t head_dim, std::int64_t slabs);

}  // namespace stof::cuda
