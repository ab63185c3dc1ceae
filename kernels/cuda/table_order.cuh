// SPDX-License-Identifier: Apache-2.0
// The items of a mask that was planned on the device, dearest first, and what there is to say about the plan.
#pragma once
#include "kernels/cuda/table_row.cuh"

namespace stof::cuda {

constexpr int kOrderThreads = 512, kOrderBins = 1024;
static_assert(DeviceTable::kMostKeys / 64 * kOrderBins < 1 << 30, "bin_of");

// Of costs 0 ... most, the dearest in bin 0: exactly in order where there are as many bins, else nearly so.
__device__ __forceinline__ int bin_of(int steps, int most) {
  if (most < kOrderBins) return most - max(steps, 0);
  return kOrderBins - 1 - max(steps, 0) * (kOrderBins - 1) / most;
}

// Adds 1 to the lane's bin; lanes of one bin take turns in order. The answer: how many it had before.
__device__ __forceinline__ int count_in(int (&bins)[kOrderBins], int bin, u32 lanes) {
  const u32 equal = __match_any_sync(lanes, bin);
  const int lane = static_cast<int>(threadIdx.x) % 32, leader = __ffs(static_cast<int>(equal)) - 1;
  int before = 0;
  if (lane == leader) before = atomicAdd(&bins[bin], __popc(equal));
  return __shfl_sync(lanes, before, leader) + __popc(equal & ((1u << lane) - 1));
}

// Where each bin begins, of how many each has: by the first warp.
__device__ __forceinline__ void begin_bins(int (&bins)[kOrderBins], int used) {
  const int lane = static_cast<int>(threadIdx.x);
  int begin = 0;
#pragma unroll 1
  for (int first = 0; first < used; first += 32) {
    const LaneSums sums = sum_over_lanes(bins[first + lane]);
    bins[first + lane] = begin + sums.before;
    begin += sums.all;
  }
}

// visit(row block, what was planned, the lanes that visit one) for every row block of a group.
template <class Visit>
__device__ __forceinline__ void for_each_row(const DeviceTable& p, int group, const Visit& visit) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int first = static_cast<int>(threadIdx.x) - lane; first < p.row_blocks; first += kOrderThreads) {
    const int row_block = first + lane;
    const u32 lanes = __ballot_sync(~0u, row_block < p.row_blocks);
    if (row_block < p.row_blocks) visit(row_block, p.planned[group * p.row_blocks + row_block], lanes);
    __syncwarp();
  }
}

// What the CTAs of all groups have to say, added up by the last of them.
struct OrderReport {
  int dropped = 0, most = 0, ignored = 0;

  __device__ __forceinline__ void add(const PlannedRow& row) {
    dropped += row.steps < 0, most = max(most, row.tiles), ignored += row.ignored;
  }
  __device__ __forceinline__ void publish(const DeviceTable& p) const {
    const int all[3] = {__reduce_add_sync(~0u, dropped), __reduce_max_sync(~0u, most), __reduce_add_sync(~0u, ignored)};
    if (threadIdx.x % 32 == 0) {
      if (all[0] > 0) atomicAdd(&p.report->dropped, all[0]);
      if (all[1] > 0) atomicMax(&p.report->most, all[1]);
      if (all[2] > 0) atomicAdd(&p.report->ignored, all[2]);
      __threadfence();
    }
    __syncthreads();
    if (threadIdx.x > 0 || atomicAdd(&p.report->arrived, 1) + 1 < static_cast<int>(gridDim.x)) return;
    __threadfence();
    p.status[0] = atomicExch(&p.report->dropped, 0);
    p.status[1] = atomicExch(&p.report->most, 0);
    p.status[2] = atomicExch(&p.report->ignored, 0);
    p.report->arrived = 0;
  }
};

// Grid: one CTA a group. Needs planned; writes items, and status if there is a place for it.
extern "C" __global__ void __launch_bounds__(kOrderThreads) order_items_kernel(const __grid_constant__ DeviceTable p) {
  __shared__ int bins[kOrderBins];
  const int thread = static_cast<int>(threadIdx.x), group = static_cast<int>(blockIdx.x);
  const int used = min(p.room + 1, kOrderBins);
  for (int i = thread; i < (used + 31) / 32 * 32; i += kOrderThreads) bins[i] = 0;
  allow_next_grid();
  wait_for_previous_grid();  // which plans
  __syncthreads();
  OrderReport report;
  for_each_row(p, group, [&](int, const PlannedRow& row, u32 lanes) {
    count_in(bins, bin_of(row.steps, p.room), lanes);
    report.add(row);
  });
  __syncthreads();
  if (thread < 32) begin_bins(bins, used);
  __syncthreads();
  for_each_row(p, group, [&](int row_block, const PlannedRow& row, u32 lanes) {
    const int place = count_in(bins, bin_of(row.steps, p.room), lanes), index = group * p.row_blocks;
    StreamItem item{64 * row_block, (index + row_block) * p.room, row.steps, row.full_steps, 0, 0, 0};
    if (row.steps < 0) item.steps = item.full_steps = 0, item.split = StreamItem::kDropped;
    p.items[index + place] = item;
    const int2* const first =
        reinterpret_cast<const int2*>(p.steps) + static_cast<long long>(index + row_block) * p.room;
    reinterpret_cast<int2*>(p.first_steps)[index + place] = item.steps > 0 ? *first : make_int2(0, 0);
  });
  if (p.status) report.publish(p);
}

}  // namespace stof::cuda
