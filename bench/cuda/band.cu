// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>

#include "bench/cuda/band_variants.cuh"
#include "kernels/cuda/band_attention.cuh"
#include "src/backend/cuda/attention/arrange.h"

namespace stof::bench {
namespace {

using cuda::arrange_band;
using cuda::BandParams;
using cuda::BandRow;
using cuda::BandShape;
using cuda::BandTraits;
using cuda::Bfloat;
using cuda::Half;

template <class Traits>
void run_band(const Problem& problem, const DenseMask& slice_mask) {
  char name[96];
  std::snprintf(name, sizeof name, "band r%d k%d c%d%s", Traits::kRows, Traits::kKeys, Traits::kCtas,
                problem.residues > 1 ? " residues" : "");
  if (!wanted(problem, name)) return;
  const auto arranged = arrange_band(scan_blocks(slice_mask, {Traits::kRows, 64, 8}), Traits::kParts, Traits::kKeys);
  if (!arranged) {
    std::printf("%-40s %-34s does not fit\n", problem.name().c_str(), name);
    return;
  }
  const DeviceArray<BandRow> rows = to_device(arranged->rows);
  const DeviceArray<unsigned> words = to_device(arranged->words);
  const BandParams params{{slices_of(problem), output_of(problem), scale_log2(problem)},
                          rows.get(),
                          words.get(),
                          int(arranged->rows.size())};
  const AttentionMaps maps = make_maps(problem, Traits::kLoadedKeys);
  const KernelFacts kernel{reinterpret_cast<const void*>(&cuda::band_attention_kernel<Traits>), Traits::kThreads,
                           int(sizeof(typename Traits::Shared))};
  BENCH_CUDA(cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.shared_bytes));
  const int grid = std::min(params.call.shape.slices * params.row_blocks, 132 * Traits::kCtas);
  measure(problem, name, kernel,
          [&](cudaStream_t stream) { launch_kernel(kernel, grid, maps, &params, sizeof params, stream); });
}

}  // namespace

void band_checks() {
  const DenseMask narrow = window(333, 30), strided = dilated(320, 16, 2), half = window(160, 16);
  for (const bool bfloat : {false, true}) {
    const Sizes sizes{2, 4, 2, 64, bfloat, Order::row_major};
    const Problem problem = make_problem(sizes, narrow), lengths = make_problem(sizes, narrow, {300, 90}, {333, 100});
    Problem residues = make_problem(sizes, strided);
    residues.residues = 2;
    if (bfloat) {
      run_band<BandTraits<Bfloat, 64, BandShape{2, 128, 2}>>(problem, narrow);
    } else {
      run_band<BandTraits<Half, 64, BandShape{2, 128, 2}>>(problem, narrow);
      run_band<BandTraits<Half, 64, BandShape{2, 128, 2, true}>>(lengths, narrow);
      run_band<BandTraits<Half, 64, BandShape{1, 96, 4}>>(residues, half);
    }
  }
}

void band_whole(const Problem& problem) {
  run_band<BandTraits<Half, 64, BandShape{1, 128, 4}>>(problem, *problem.mask);
}

void band_rows(const Sizes& sizes, int length, int reach) {
  const DenseMask mask = window(length, reach), strided = dilated(length, reach, 2), half = window(length / 2, reach);
  const Problem problem = make_problem(sizes, mask), direct = make_problem(sizes, strided);
  Problem residues = make_problem(sizes, strided);
  residues.residues = 2;
  if (reach == 32) {
    run_band<BandTraits<Half, 64, BandShape{2, 128, 2}>>(problem, mask);
    run_band<BandTraits<Half, 64, BandShape{1, 128, 4}>>(problem, mask);
    run_band<BandTraits<Half, 64, BandShape{2, 128, 2}>>(residues, half);
    run_band<BandTraits<Half, 64, BandShape{1, 128, 4}>>(residues, half);
    run_band<BandTraits<Half, 64, BandShape{1, 192, 3}>>(direct, strided);
  } else {
    run_band<BandTraits<Half, 64, BandShape{2, 96, 2}>>(problem, mask);
    run_band<BandTraits<Half, 64, BandShape{1, 96, 5}>>(problem, mask);
    run_band<BandTraits<Half, 64, BandShape{2, 96, 2}>>(residues, half);
    run_band<BandTraits<Half, 64, BandShape{1, 96, 5}>>(residues, half);
    run_band<BandTraits<Half, 64, BandShape{1, 128, 4}>>(direct, strided);
  }
}

}  // namespace stof::bench
