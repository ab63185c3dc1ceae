// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>

#include "bench/cuda/gather_variants.cuh"
#include "kernels/cuda/gather_attention.cuh"
#include "src/backend/cuda/attention/arrange.h"

namespace stof::bench {
namespace {

using cuda::arrange_gather;
using cuda::ArrangedGather;
using cuda::Bfloat;
using cuda::GatherItem;
using cuda::GatherParams;
using cuda::GatherShape;
using cuda::GatherTraits;
using cuda::Half;

template <class Traits>
void run_gather(const Problem& problem, int most_units) {
  char name[96];
  std::snprintf(name, sizeof name, "gather k%d c%d units%d%s", Traits::kKeys, Traits::kCtas, most_units,
                problem.residues > 1 ? " residues" : "");
  if (!wanted(problem, name)) return;
  const ArrangedGather arranged =
      arrange_gather(scan_blocks(*problem.mask, {64, 64, 64}), {Traits::kPieces, most_units});
  const auto& group = arranged.groups[0];
  const DeviceArray<GatherItem> items = to_device(arranged.items);
  const DeviceArray<int> units = to_device(arranged.units);
  const DeviceArray<unsigned> words = to_device(arranged.words);
  const SliceShape slices = slices_of(problem);
  const std::size_t slots = std::size_t(slices.slices) * std::size_t(group.slots);
  const DeviceArray<float> partials = allocate<float>(slots * 128 * (Traits::kHeadDim / 2 + 4));
  const DeviceArray<int> arrivals = allocate<int>(slots);
  const GatherParams params{{slices, output_of(problem), scale_log2(problem)},
                            items.get(),
                            units.get(),
                            words.get(),
                            group.item_count,
                            group.long_items,
                            group.item_count - group.long_items,
                            group.slots,
                            partials.get(),
                            arrivals.get()};
  const AttentionMaps maps = make_maps(problem, Traits::kPieceKeys);
  const KernelFacts kernel{reinterpret_cast<const void*>(&cuda::gather_attention_kernel<Traits>), Traits::kThreads,
                           int(sizeof(typename Traits::Shared))};
  BENCH_CUDA(cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.shared_bytes));
  const int grid = std::min(slices.slices * params.item_count, 132 * Traits::kCtas);
  measure(problem, name, kernel,
          [&](cudaStream_t stream) { launch_kernel(kernel, grid, maps, &params, sizeof params, stream); });
}

}  // namespace

void gather_checks() {
  const DenseMask random = random_elements(200, 333, 0.05, 1), mixed = longformer(517, 20, 24), lower = causal(517);
  for (const bool bfloat : {false, true}) {
    const Sizes sizes{2, 4, 2, 64, bfloat, Order::row_major};
    const Problem sparse = make_problem(sizes, random), problem = make_problem(sizes, mixed),
                  lengths = make_problem(sizes, mixed, {300, 90}, {517, 100}),
                  ragged = make_problem(sizes, lower, {517, 65}, {517, 66}),
                  wide = make_problem({2, 4, 2, 128, bfloat, Order::head_major}, mixed);
    if (bfloat) {
      run_gather<GatherTraits<Bfloat, 64, GatherShape{4, 4}>>(problem, 2);
      continue;
    }
    for (const int most_units : {0, 1, 2}) {
      run_gather<GatherTraits<Half, 64, GatherShape{4, 4}>>(sparse, most_units);
      run_gather<GatherTraits<Half, 64, GatherShape{4, 4}>>(problem, most_units);
      run_gather<GatherTraits<Half, 64, GatherShape{5, 3}>>(problem, most_units);
      run_gather<GatherTraits<Half, 64, GatherShape{4, 4, true}>>(lengths, most_units);
      run_gather<GatherTraits<Half, 64, GatherShape{4, 4, true}>>(ragged, most_units);
      run_gather<GatherTraits<Half, 128, GatherShape{4, 2}>>(wide, most_units);
    }
  }
}

void gather_rows(const Problem& problem, int reach) {
  for (const int most_units : {0, 1, 2, 4, 8})
    if (reach == 32) {
      run_gather<GatherTraits<Half, 64, GatherShape{5, 3}>>(problem, most_units);
    } else {
      run_gather<GatherTraits<Half, 64, GatherShape{4, 4}>>(problem, most_units);
    }
}

}  // namespace stof::bench
