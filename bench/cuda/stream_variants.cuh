// SPDX-License-Identifier: Apache-2.0
// Instances of the stream kernel, behind one function each so that every family compiles by itself.
#pragma once
#include <algorithm>
#include <cstring>

#include "bench/cuda/problem.cuh"
#include "kernels/cuda/stream_attention.cuh"
#include "src/backend/cuda/attention/arrange.h"
#include "src/backend/cuda/attention/sections.h"

namespace stof::bench {

using cuda::ArrangedStream;
using cuda::StreamItem;
using cuda::StreamParams;

struct StreamTuning {
  int most_steps = 0, section = 1;
  int key_step = 64;
  bool queue = true;                      // false: items are dealt round robin
  const DenseMask* slice_mask = nullptr;  // of one residue class, where the problem is viewed by residue
};

template <class Traits>
void run_stream(const Problem& problem, const StreamTuning& tuning) {
  char name[96];
  std::snprintf(name, sizeof name, "stream t%d r%d k%d st%d c%d g%d split%d sec%d%s", Traits::kTeams, Traits::kRows,
                Traits::kKeys, Traits::kStages, Traits::kCtas, Traits::kGroups, tuning.most_steps, tuning.section,
                tuning.queue ? "" : " noqueue");
  if (problem.residues > 1) std::strcat(name, " residues");
  if (!wanted(problem, name)) return;
  const BlockLayout layout =
      scan_blocks(tuning.slice_mask ? *tuning.slice_mask : *problem.mask, {Traits::kRows, 64, tuning.key_step});
  const ArrangedStream arranged = cuda::arrange_stream(layout, {Traits::kParts, Traits::kTiles, tuning.most_steps});
  const DeviceArray<StreamItem> items = to_device(arranged.items);
  const DeviceArray<int> steps = to_device(arranged.steps);
  const DeviceArray<int> first_steps = to_device(cuda::first_steps(arranged, Traits::kStepInts));
  const DeviceArray<unsigned> words = to_device(arranged.words);
  const SliceShape shape = slices_of(problem);
  const std::size_t slots = std::size_t(shape.slices) * arranged.groups[0].slots * Traits::kParts;
  const DeviceArray<float> partials = allocate<float>(slots * 128 * (Traits::kHeadDim / 2 + 4));
  const DeviceArray<int> arrivals = allocate<int>(slots), queue = allocate<int>(2);
  const int total = shape.slices * int(arranged.items.size());
  const int wanted_ctas = (total + Traits::kTeams - 1) / Traits::kTeams;
  const int grid = std::min(wanted_ctas, 132 * Traits::kCtas);
  const StreamParams params{
      {shape, output_of(problem), scale_log2(problem)},
      {items.get(), steps.get(), first_steps.get(), words.get(), int(arranged.items.size()), arranged.groups[0].slots},
      cuda::in_sections({tuning.section, 1, tuning.section}, shape.slices, int(arranged.items.size())),
      partials.get(),
      arrivals.get(),
      tuning.queue && grid * Traits::kTeams < total ? queue.get() : nullptr};
  const AttentionMaps maps = make_maps(problem, 64);
  const KernelFacts kernel{reinterpret_cast<const void*>(&cuda::stream_attention_kernel<Traits>), Traits::kThreads,
                           int(sizeof(typename Traits::Shared))};
  BENCH_CUDA(cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.shared_bytes));
  measure(problem, name, kernel,
          [&](cudaStream_t stream) { launch_kernel(kernel, grid, maps, &params, sizeof params, stream); });
}

using cuda::Bfloat;
using cuda::Half;
using cuda::StreamShape;
using cuda::StreamTraits;

// d 64
void stream_pairs(const Problem& problem, const StreamTuning& tuning);        // two teams of 128 rows
void stream_singles(const Problem& problem, const StreamTuning& tuning);      // four teams of 64 rows
void stream_small(const Problem& problem, const StreamTuning& tuning);        // CTAs of one team of 64 rows
void stream_deep(const Problem& problem, const StreamTuning& tuning);         // the same with more steps in flight
void stream_four_groups(const Problem& problem, const StreamTuning& tuning);  // 64 rows, their steps dealt to four
void stream_two_groups(const Problem& problem, const StreamTuning& tuning);   // two teams of that kind, dealt to two
void stream_quads(const Problem& problem, const StreamTuning& tuning);        // one team of 256 rows
void stream_triples(const Problem& problem, const StreamTuning& tuning);      // one team of 192 rows, 128 keys
// d 128
void stream_pair_128(const Problem& problem, const StreamTuning& tuning);        // 128 rows, 128 keys
void stream_triple_128(const Problem& problem, const StreamTuning& tuning);      // 192 rows, 64 keys
void stream_pair_short_128(const Problem& problem, const StreamTuning& tuning);  // 128 rows, 64 keys
void stream_singles_128(const Problem& problem, const StreamTuning& tuning);     // two teams of 64 rows
void stream_two_groups_128(const Problem& problem, const StreamTuning& tuning);  // 64 rows, their steps dealt to two
// other head dimensions and bf16, for correctness
void stream_other(const Problem& problem, const StreamTuning& tuning);

}  // namespace stof::bench
