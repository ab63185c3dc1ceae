// SPDX-License-Identifier: Apache-2.0
// Behind decode_attention_kernel: adds up the parts of the tasks that were cut.
#pragma once
#include "kernels/cuda/decode_block.cuh"

namespace stof::cuda {

// Threads take four columns each; those of many parts are shared out over several groups of threads, whose sums meet.
template <int kRows, int kHeadDim>
struct SumTraits {
  static constexpr int kThreads = 128, kFours = kHeadDim / 4, kGroups = kThreads / kFours;
  using Part = CtaPart<kRows, kHeadDim>;
  using Sum = PartSum<kHeadDim, 2 * Part::kFloats>;
  static constexpr int kManyParts = 2 * Sum::kBatch;
  struct Shared {
    float shares[kThreads / 32 * Sum::kWarpFloats];
    float4 values[kGroups][kFours];
    float2 stats[kGroups];
  };
};

// The next grid may start only now: were its CTAs on their way while those of the grid in front still have their
// places, two of them would lie in one multiprocessor and none in another.
__device__ __forceinline__ void start() {
  wait_for_inputs();
  allow_overlap();
}

template <class Traits>
struct TaskSum {
  typename Traits::Shared& shared;
  const DecodeParams& p;

  // Of all groups of threads that have columns of a row, for the first of them.
  __device__ __forceinline__ RowPart of_groups(const RowPart& mine, int group, int groups) const {
    const int four = static_cast<int>(threadIdx.x) % Traits::kFours;
    shared.values[group][four] = mine.values;
    if (four == 0) shared.stats[group] = make_float2(mine.maximum, mine.sum);
    __syncthreads();
    RowPart total = no_part();
    for (int i = 0; i < groups; ++i) total.maximum = fmaxf(total.maximum, shared.stats[i].x);
    for (int i = 0; i < groups; ++i) {
      const float2 stats = shared.stats[i];
      add_share(total, {stats.x, stats.y, shared.values[i][four]}, share_of(stats.x, total.maximum, p.scale_log2));
    }
    __syncthreads();
    return total;
  }

  // Rows of the task from this block's first one on; or, not yet ready, one turn of the same code without parts.
  template <class Element>
  __device__ __forceinline__ void run(const DecodeTask& task, const DecodeCut& cut, bool ready) const {
    const int thread = static_cast<int>(threadIdx.x), group = thread / Traits::kFours;
    const int column = thread % Traits::kFours * 4;
    const int groups = cut.count > Traits::kManyParts ? Traits::kGroups : 1, rows = Traits::kGroups / groups;
    const int mine = group % groups, begin = mine * cut.count / groups, end = (mine + 1) * cut.count / groups;
    const int most = ready ? (cut.count + groups - 1) / groups : 0;
    int first = static_cast<int>(blockIdx.y) * rows;
#pragma unroll 1
    do {
      const int r = first + group / groups, safe = r < task.rows ? r : 0;
      const bool there = ready && r < task.rows;
      const ResultRow row(p, task, item_of<true>(p, task), safe);
      // For the translation of the address.
      if (!ready) prefetch_line(Traits::Part::of(p, cut.first + begin, true).row(safe) + column);
      RowPart total = sum_of_parts<typename Traits::Part, 4 * Traits::kFours>(p, cut, shared.shares, safe, column,
                                                                              begin, there ? end : begin, most);
      if (groups > 1) total = of_groups(total, mine, groups);
      if (there && mine == 0 && column < p.head_dim) row.write<Element>(column, total, p.scale_log2);
      first += static_cast<int>(gridDim.y) * rows;
    } while (ready && first < task.rows);
  }
};

// Grid: {tasks, or CTAs of the launch in front; anything}. Its code runs once without work before the wait for that
// launch: a multiprocessor that has it not at hand takes a microsecond to bring it.
template <class Traits>
__global__ void __launch_bounds__(128, 4) decode_sum_kernel(const __grid_constant__ DecodeParams p) {
  using Sum = SumTraits<Traits::kRows, Traits::kHeadDim>;
  __shared__ typename Sum::Shared shared;
  const int block = static_cast<int>(blockIdx.x);
  const DecodeTasks tasks{p};
  DecodeCut cut{0, 0, 0, 0};
  DecodeTask task{p.items, 0, 0, 0, 0, 1, 0, 0, {}, 0, 0};  // of no work
  if (p.sums_of_tasks) {
    task = tasks.alike_at(block);
    if (task.tiles > 0) cut = cut_of(shares_of_alike(tasks), block, block * task.units, task.units, p.start);
  }
#pragma unroll 1
  for (int turn = 0; turn < 2; ++turn) {
    if (turn == 1) {
      start();
      if (!p.sums_of_tasks) {
        const int4 left = __ldcg(reinterpret_cast<const int4*>(p.cuts) + block);
        cut = {left.x, left.y, left.z, left.w};
      }
      if (cut.count < 2) return;
      if (!p.sums_of_tasks) task = tasks.at<true>(cut.task);
    }
    TaskSum<Sum>{shared, p}.template run<typename Traits::Element>(task, cut, turn == 1);
  }
}

}  // namespace stof::cuda
