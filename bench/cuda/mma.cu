// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "bench/cuda/mma_variants.cuh"
#include "kernels/cuda/mma_attention.cuh"
#include "kernels/cuda/row_attention.cuh"
#include "src/backend/cuda/attention/arrange.h"
#include "src/backend/cuda/attention/sections.h"

namespace stof::bench {
namespace {

using cuda::Bfloat;
using cuda::Half;
using cuda::MmaParams;
using cuda::MmaShape;
using cuda::MmaTraits;

cuda::AttentionInput input_of(const Problem& problem, const std::uint16_t* values, int rows, int heads, bool aligned) {
  const Sizes& s = problem.sizes;
  const long long per_row = s.head_dim;
  if (s.order == Order::head_major) return {values, per_row, rows * per_row, heads * rows * per_row, aligned};
  return {values, heads * per_row, per_row, rows * heads * per_row, aligned};
}

MmaParams params_of(const Problem& p, bool aligned) {
  aligned = aligned && p.sizes.head_dim % 8 == 0;
  MmaParams params{};
  params.call = {slices_of(p), output_of(p), scale_log2(p)};
  params.q = input_of(p, p.q.get(), p.mask->queries, p.sizes.heads, aligned);
  params.k = input_of(p, p.k.get(), p.mask->keys, p.sizes.kv_heads, aligned);
  params.v = input_of(p, p.v.get(), p.mask->keys, p.sizes.kv_heads, aligned);
  params.aligned_out = aligned;
  return params;
}

template <class Traits>
void measure_mma(const Problem& problem, const std::string& name, int grid, MmaParams params) {
  const KernelFacts kernel{reinterpret_cast<const void*>(&cuda::mma_attention_kernel<Traits>), Traits::kThreads,
                           int(sizeof(typename Traits::Shared))};
  BENCH_CUDA(cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.shared_bytes));
  measure(problem, name, kernel, [&](cudaStream_t stream) {
    void* arguments[] = {&params};
    BENCH_CUDA(cudaLaunchKernel(kernel.function, dim3(unsigned(grid)), dim3(unsigned(kernel.threads)), arguments,
                                std::size_t(kernel.shared_bytes), stream));
  });
}

template <class Traits>
std::string name_of(const char* kind, int most_steps, int section, bool aligned) {
  char name[96];
  std::snprintf(name, sizeof name, "mma%s p%d s%d st%d c%d split%d sec%d%s", kind, Traits::kParts, Traits::kSlabs,
                Traits::kStages, Traits::kCtas, most_steps, section, aligned ? "" : " elements");
  return name;
}

template <class Traits>
void run_mma(const Problem& problem, int most_steps, int section, bool aligned = true) {
  const std::string name = name_of<Traits>("", most_steps, section, aligned);
  if (!wanted(problem, name)) return;
  const BlockLayout layout = scan_blocks(*problem.mask, {Traits::kRows, 64, 64});
  const cuda::ArrangedStream arranged = cuda::arrange_stream(layout, {Traits::kParts, 1, most_steps});
  const DeviceArray<cuda::StreamItem> items = to_device(arranged.items);
  const DeviceArray<int> steps = to_device(arranged.steps);
  const DeviceArray<unsigned> words = to_device(arranged.words);
  MmaParams params = params_of(problem, aligned);
  const int slices = params.call.shape.slices, slots = arranged.groups[0].slots;
  const std::size_t parts = std::size_t(slices) * slots * Traits::kParts;
  const DeviceArray<float> partials = allocate<float>(parts * 128 * (Traits::kHeadDim / 2 + 4));
  const DeviceArray<int> arrivals = allocate<int>(parts);
  params.layout = {items.get(), steps.get(), nullptr, words.get(), int(arranged.items.size()), slots};
  params.sections = cuda::in_sections({section, 1, section}, slices, params.layout.item_count);
  params.partials = partials.get(), params.arrivals = arrivals.get();
  measure_mma<Traits>(problem, name, slices * int(arranged.items.size()), params);
}

// A mask as it was packed for row blocks of `parts` times 64 rows.
struct PackedOnDevice {
  DeviceArray<int> group_of;
  DeviceArray<long long> row_begin;
  DeviceArray<cuda::RowEntry> entries;
  DeviceArray<unsigned long long> bitmaps;
  cuda::RowLayoutView view;

  PackedOnDevice(const Problem& problem, int parts) {
    const BlockLayout layout = scan_blocks(*problem.mask, {64 * parts, 64, 8});
    std::vector<cuda::RowEntry> listed;
    for (const BlockEntry& entry : layout.entries) listed.push_back({entry.key_start, entry.bitmap});
    group_of = to_device(std::vector<int>(std::size_t(problem.sizes.heads), 0));
    row_begin = to_device(std::vector<long long>(layout.row_begin.begin(), layout.row_begin.end()));
    entries = to_device(listed);
    bitmaps = to_device(std::vector<unsigned long long>(layout.bitmaps.begin(), layout.bitmaps.end()));
    view = {group_of.get(),      row_begin.get(),        entries.get(), bitmaps.get(),
            problem.sizes.heads, int(layout.row_blocks), 64 * parts,    int(layout.first_position)};
  }
};

template <class Traits>
void run_packed(const Problem& problem, int parts, bool aligned = true) {
  const std::string name = name_of<Traits>(" packed", parts, 0, aligned);
  if (!wanted(problem, name)) return;
  const PackedOnDevice packed(problem, parts);
  MmaParams params = params_of(problem, aligned);
  params.blocks = packed.view;
  measure_mma<Traits>(problem, name, params.call.shape.slices * packed.view.row_blocks * parts, params);
}

// The kernel that would run otherwise.
void run_rows(const Problem& problem) {
  if (!wanted(problem, "rows")) return;
  const PackedOnDevice packed(problem, 1);
  const MmaParams from = params_of(problem, true);
  const AttentionOutput& out = from.call.out;
  const auto stride = [](const cuda::AttentionInput& input) {
    return cuda::RowStride{input.head_stride, input.row_stride};
  };
  cuda::RowAttentionParams params{};
  params.q = from.q.values, params.k = from.k.values, params.v = from.v.values;
  params.out = out.values, params.lse = out.lse;
  params.q_stride = stride(from.q), params.k_stride = stride(from.k), params.v_stride = stride(from.v);
  params.out_stride = {out.head_stride, out.row_stride}, params.lse_stride = {out.lse_head_stride, 1};
  params.heads = problem.sizes.heads, params.heads_per_kv = problem.sizes.heads / problem.sizes.kv_heads;
  params.head_dim = problem.sizes.head_dim;
  params.scale = 1 / std::sqrt(float(problem.sizes.head_dim));
  params.chunks = (problem.mask->queries + cuda::kRowWarps - 1) / cuda::kRowWarps;
  params.layout = packed.view;
  for (int i = 0; i < problem.sizes.batch; ++i)
    params.items[i] = {i * from.q.item_stride,  i * from.k.item_stride, i * from.v.item_stride, i * out.item_stride,
                       i * out.lse_item_stride, problem.mask->queries,  problem.mask->keys,     0};
  const KernelFacts kernel{reinterpret_cast<const void*>(&cuda::row_attention_kernel<cuda::StoredHalf>),
                           32 * cuda::kRowWarps, 0};
  measure(problem, "rows", kernel, [&](cudaStream_t stream) {
    void* arguments[] = {&params};
    BENCH_CUDA(cudaLaunchKernel(kernel.function,
                                dim3(unsigned(params.chunks * params.heads), 1, unsigned(problem.sizes.batch)),
                                dim3(unsigned(kernel.threads)), arguments, 0, stream));
  });
}

template <class Element>
void check_head_dims(bool bfloat) {
  const DenseMask random = random_elements(200, 333, 0.05, 1), lower = causal(200);
  const auto check = [&]<int kHeadDim, int kStages, int kCtas>(int d) {
    const Problem grouped = make_problem({2, 4, 2, d, bfloat, Order::row_major}, random),
                  lengths = make_problem({2, 2, 1, d, bfloat, Order::head_major}, lower, {150, 33}, {200, 77});
    run_mma<MmaTraits<Element, kHeadDim, MmaShape{1, 1, kStages, kCtas}>>(grouped, 3, 4);
    run_mma<MmaTraits<Element, kHeadDim, MmaShape{1, 1, kStages, kCtas}>>(lengths, 0, 4);
    run_packed<MmaTraits<Element, kHeadDim, MmaShape{1, 1, kStages, kCtas, true}>>(lengths, 2, false);
  };
  check.template operator()<32, 2, 4>(8), check.template operator()<32, 2, 4>(32);
  check.template operator()<64, 2, 4>(40), check.template operator()<64, 2, 4>(64);
  check.template operator()<96, 2, 2>(80), check.template operator()<128, 2, 2>(128);
  check.template operator()<192, 1, 2>(192), check.template operator()<256, 1, 2>(256);
}

}  // namespace

void mma_checks() {
  check_head_dims<Half>(false), check_head_dims<Bfloat>(true);
  const DenseMask wide = window(517, 40), lower = causal(1000);
  const Problem problem = make_problem({3, 4, 4, 64}, wide),
                lengths = make_problem({3, 4, 4, 64}, lower, {1000, 300, 65}, {1000, 555, 65});
  for (const bool aligned : {true, false}) {
    run_mma<MmaTraits<Half, 64, MmaShape{2, 2, 2, 2}>>(problem, 2, 3, aligned);
    run_mma<MmaTraits<Half, 64, MmaShape{1, 2, 2, 4}>>(lengths, 5, 3, aligned);
    run_mma<MmaTraits<Half, 64, MmaShape{2, 1, 2, 2}>>(lengths, 0, 3, aligned);
    run_packed<MmaTraits<Half, 64, MmaShape{1, 1, 2, 4, true}>>(problem, 1, aligned);
    run_packed<MmaTraits<Half, 64, MmaShape{1, 1, 2, 4, true}>>(lengths, 4, aligned);
  }
}

void mma_64(const Problem& problem, int most_steps, int section) {
  run_mma<MmaTraits<Half, 64, MmaShape{1, 1, 2, 4}>>(problem, most_steps, section);
  run_mma<MmaTraits<Half, 64, MmaShape{2, 2, 2, 2}>>(problem, most_steps, section);
}

void mma_128(const Problem& problem, int most_steps, int section) {
  run_mma<MmaTraits<Half, 128, MmaShape{1, 1, 2, 2}>>(problem, most_steps, section);
  run_mma<MmaTraits<Half, 128, MmaShape{2, 2, 1, 2}>>(problem, most_steps, section);
}

void mma_fallbacks(const Problem& problem) {
  for (const bool aligned : {true, false})
    run_packed<MmaTraits<Half, 64, MmaShape{1, 1, 2, 4, true}>>(problem, 1, aligned);
  run_rows(problem);
}

}  // namespace stof::bench
