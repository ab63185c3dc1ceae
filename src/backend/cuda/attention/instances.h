// SPDX-License-Identifier: Apache-2.0
// The instances of the attention kernels: names and numbers of kernels/cuda/instances.cmake, as the host plans with
// them.
#pragma once
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "stof/device.h"
#include "stof/tensor.h"

namespace stof::cuda {

// StreamTraits<.., head_dim, StreamShape{teams, parts, tiles, stages, ctas, groups, queries, false, more_keys,
// stacked}>. Its unit has kernels for items that are shorter than planned, and for keys in pages, too.
struct StreamInstance {
  int head_dim, teams, parts, tiles, stages, ctas, groups, queries = 2, more_keys = 0;
  bool stacked = false;
  bool takes_lists() const { return groups == 1 && !stacked; }  // others are for few row blocks
  friend bool operator==(const StreamInstance&, const StreamInstance&) = default;
};

// BandTraits<.., head_dim, BandShape{parts, keys, ctas}>
struct BandInstance {
  int head_dim, parts, keys, ctas;
  int loaded_keys() const { return keys + 64 * (parts - 1); }
  friend bool operator==(const BandInstance&, const BandInstance&) = default;
};

// GatherTraits<.., head_dim, GatherShape{pieces, ctas}>
struct GatherInstance {
  int head_dim, pieces, ctas;
  friend bool operator==(const GatherInstance&, const GatherInstance&) = default;
};

// MmaTraits<.., head_dim, MmaShape{parts, slabs, stages, ctas}>. The unit of an instance of one part has a kernel for
// packed masks too.
struct MmaInstance {
  int head_dim, parts, slabs, stages, ctas;
  int threads() const { return 128 * parts / slabs; }
  int shared_bytes() const { return 2 * head_dim * 64 * (parts + 2 * stages); }
  friend bool operator==(const MmaInstance&, const MmaInstance&) = default;
};

// DecodeTraits<.., head_dim, DecodeShape{ctas, 1, 2 and 4}>, and on Hopper DecodeShape{1, 4, warpgroups} in a unit of
// its own.
struct DecodeInstance {
  int head_dim, ctas, warpgroups;
  friend bool operator==(const DecodeInstance&, const DecodeInstance&) = default;
};

// Shared memory of a multiprocessor, which keeps 1 KB of it for every CTA.
int shared_kilobytes(int arch);

std::span<const StreamInstance> stream_instances();
std::span<const BandInstance> band_instances();
std::span<const GatherInstance> gather_instances();
std::span<const MmaInstance> mma_instances();
std::span<const DecodeInstance> decode_instances();

// Of 16-bit storage: "stream_f16_d64_t4_p1_k1_s2_c1_g1" (with _q1 behind where q is held once, _m1 where keys have a
// stage more, _stacked where heads are), "band_bf16_d64_p2_k128_c2", "gather_f16_d64_n4_c4", "mma_f16_d64_p1_w1_s2_c4",
// "decode_f16_d128_c2", and for warpgroups "decode_f16_d128_g2".
std::string name_of(const StreamInstance& instance, DType dtype);
std::string name_of(const BandInstance& instance, DType dtype);
std::string name_of(const GatherInstance& instance, DType dtype);
std::string name_of(const MmaInstance& instance, DType dtype);
std::string name_of(const DecodeInstance& instance, DType dtype);
std::string wide_name_of(const DecodeInstance& instance, DType dtype);

// Its forms for calls with a softcap, or with a relative bias, which no build has: the run-time compiler makes them
// when a plan first wants them.
enum class StreamForm : std::uint8_t { capped, biased };
std::string name_of(const StreamInstance& instance, DType dtype, StreamForm form);
std::string source_of(const StreamInstance& instance, DType dtype, StreamForm form);

// The one of this name, which is among them.
template <class Instance>
const Instance& instance_named(std::span<const Instance> instances, std::string_view name, DType dtype) {
  const auto found = std::find_if(instances.begin(), instances.end(),
                                  [&](const Instance& instance) { return name_of(instance, dtype) == name; });
  STOF_CHECK(found != instances.end());
  return *found;
}

// How many of its CTAs a multiprocessor holds; 0: its shared memory is too small for one.
int ctas_of(const MmaInstance& instance, const DeviceCaps& caps);
int ctas_of(const DecodeInstance& instance, const DeviceCaps& caps);

template <class Instance>
int largest_head_dim(std::span<const Instance> instances) {
  int largest = 0;
  for (const Instance& instance : instances) largest = std::max(largest, instance.head_dim);
  return largest;
}

// The smallest head dimension among the instances that is not below.
template <class Instance>
std::optional<int> rounded_head_dim(std::span<const Instance> instances, std::int64_t head_dim) {
  std::optional<int> best;
  for (const Instance& instance : instances)
    if (instance.head_dim >= head_dim && (!best || instance.head_dim < *best)) best = instance.head_dim;
  return best;
}

}  // namespace stof::cuda
