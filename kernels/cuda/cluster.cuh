// SPDX-License-Identifier: Apache-2.0
// What CTAs of a cluster do for each other: barriers, and stores to each other's shared memory. And bulk copies of
// matrices.
#pragma once
#include "kernels/cuda/ptx.cuh"

namespace stof::cuda {

// By whole warps. Orders nothing but barriers that were made and fenced before the arrival: a release would wait for
// all of a thread's memory. Threads that have left count as arrived.
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// By whole warps: what any thread of the cluster wrote before is seen by all behind it.
__device__ __forceinline__ void cluster_meet() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  cluster_wait();
}

// The address, in the cluster's window, of what another CTA has at this address.
__device__ __forceinline__ u32 address_of_rank(u32 address, int rank) {
  u32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}
// What another CTA has at this address, behind a meeting.
__device__ __forceinline__ float2 pair_of_rank(u32 address, int rank) {
  float2 x;
  asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];"
               : "=f"(x.x), "=f"(x.y)
               : "r"(address_of_rank(address, rank))
               : "memory");
  return x;
}
__device__ __forceinline__ float4 four_of_rank(u32 address, int rank) {
  float4 x;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "r"(address_of_rank(address, rank))
               : "memory");
  return x;
}
// For those who have read and not written: a release at the cluster's scope would wait for all of this thread's memory
// (MEMBAR.ALL.GPU, by each arrival).
__device__ __forceinline__ void arrive_there(u32 barrier_there) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier_there) : "memory");
}
// Counted by the barrier beside it, in the same CTA, which expects the bytes.
__device__ __forceinline__ void send(u32 there, const float* values, u32 barrier_there) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(there),
      "f"(values[0]), "f"(values[1]), "f"(values[2]), "f"(values[3]), "r"(barrier_there)
      : "memory");
}
// As barrier_wait, for what other CTAs sent.
__device__ __forceinline__ void cluster_barrier_wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@done bra go;\nbra again;\ngo:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// Boxes of a matrix, by one lane.
__device__ __forceinline__ void load_matrix(u32 target, const TensorMap& map, int column, int row, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4}], [%2];" ::"r"(target),
      "l"(&map), "r"(barrier), "r"(column), "r"(row)
      : "memory");
}
__device__ __forceinline__ void load_matrix(u32 target, const TensorMap& map, int column, int row, u32 barrier,
                                            u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(target),
      "l"(&map), "r"(barrier), "r"(column), "r"(row), "l"(policy)
      : "memory");
}
// To the same place in every CTA of `ranks`, a bit each, whose barriers at the same place count it.
__device__ __forceinline__ void load_matrix_for(unsigned short ranks, u32 target, const TensorMap& map, int column,
                                                int row, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(target),
      "l"(&map), "r"(barrier), "r"(column), "r"(row), "h"(ranks)
      : "memory");
}
__device__ __forceinline__ void store_matrix(const TensorMap& map, int column, int row, u32 source) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map),
               "r"(source), "r"(column), "r"(row)
               : "memory");
}
__device__ __forceinline__ void store_matrix(const TensorMap& map, int column, int row, u32 source, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.L2::cache_hint [%0, {%2, %3}], [%1], %4;" ::"l"(&map),
      "r"(source), "r"(column), "r"(row), "l"(policy)
      : "memory");
}
__device__ __forceinline__ void prefetch_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

}  // namespace stof::cuda
