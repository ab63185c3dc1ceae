// SPDX-License-Identifier: Apache-2.0
// Thin wrappers over the PTX that the kernels need on sm_90: barriers, bulk copies, fences, dependent launch.
#pragma once
#include "kernels/shared/cache_use.h"
#include "kernels/shared/device_layout.h"

namespace stof::cuda {

using u32 = unsigned;
using u64 = unsigned long long;

__device__ __forceinline__ u32 shared_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

// The value of lane 0, which the compiler then knows to be the same in the whole warp: addresses and descriptors made
// of it live in uniform registers.
__device__ __forceinline__ int uniform(int x) { return __shfl_sync(~0u, x, 0); }

// True in one lane of a warp that is whole here, always the same one. The assembler knows that lane to be alone and
// spares each copy that it issues a loop over lanes.
__device__ __forceinline__ bool elected() {
  u32 lone;
  asm volatile("{\n.reg .pred one;\nelect.sync _|one, 0xffffffff;\nselp.u32 %0, 1, 0, one;\n}" : "=r"(lone));
  return lone != 0;
}

// Barriers in shared memory.

__device__ __forceinline__ void barrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// By a whole warp, a lane each. One after the other they take 60 cycles each, so that warps share what a CTA has.
template <int kCount>
__device__ __forceinline__ void init_barriers(u64 (&barriers)[kCount], u32 arrivals) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane < kCount) barrier_init(shared_address(&barriers[lane]), arrivals);
}
// Makes initialised barriers visible to the copy engine.
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void barrier_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void barrier_wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra go;\nbra again;\ngo:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// Named barrier. The id is a constant: with an id in a register all sixteen are reserved, which limits the CTAs per SM.
template <int kId, int kThreads>
__device__ __forceinline__ void named_barrier() {
  asm volatile("bar.sync %0, %1;" ::"n"(kId), "n"(kThreads) : "memory");
}
// By warps that come to it in different places of the code: of bar.sync, synccheck asks that it be one place.
template <int kId, int kThreads>
__device__ __forceinline__ void named_barrier_anywhere() {
  asm volatile("barrier.sync %0, %1;" ::"n"(kId), "n"(kThreads) : "memory");
}
// Reserves all sixteen of the 64 that an SM has.
template <int kThreads>
__device__ __forceinline__ void named_barrier(int id) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(kThreads) : "memory");
}

// Bulk copies, each by one lane.

// What the L2 does with the lines of a copy: the assembler makes a constant of either. A copy of which nothing is known
// has no policy: evict_normal would be a wish of its own.
__device__ __forceinline__ u64 cache_policy(int use) {
  u64 once, again;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(once));
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(again));
  return use == kReadOnce ? once : again;
}

struct Place {  // of a box's first element
  int column, row, residue, head, item;
};

__device__ __forceinline__ void load_box(u32 target, const TensorMap& map, const Place& at, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(target),
      "l"(&map), "r"(barrier), "r"(at.column), "r"(at.row), "r"(at.residue), "r"(at.head), "r"(at.item)
      : "memory");
}
__device__ __forceinline__ void load_bytes(u32 target, const void* source, u32 bytes, u32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(target),
               "l"(source), "r"(bytes), "r"(barrier)
               : "memory");
}
__device__ __forceinline__ void store_box(const TensorMap& map, const Place& at, u32 source) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(&map),
      "r"(source), "r"(at.column), "r"(at.row), "r"(at.residue), "r"(at.head), "r"(at.item)
      : "memory");
}
__device__ __forceinline__ void store_box(const TensorMap& map, const Place& at, u32 source, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group.L2::cache_hint "
      "[%0, {%2, %3, %4, %5, %6}], [%1], %7;" ::"l"(&map),
      "r"(source), "r"(at.column), "r"(at.row), "r"(at.residue), "r"(at.head), "r"(at.item), "l"(policy)
      : "memory");
}
__device__ __forceinline__ void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Until the committed stores have read their shared memory.
__device__ __forceinline__ void wait_stores_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
// Orders ordinary writes to shared memory before reads by the copy engine and the tensor cores.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Programmatic dependent launch: no-ops when the kernel was launched without it.
__device__ __forceinline__ void wait_for_previous_grid() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void allow_next_grid() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// What threads wrote before the barrier in front of this is seen by those behind the barrier that follows another CTA's
// addition to the same number. One thread's fence in place of everybody's.
__device__ __forceinline__ int add_and_order(int* number, int increment) {
  int before;
  asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], %2;" : "=r"(before) : "l"(number), "r"(increment) : "memory");
  return before;
}

template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// The lowest `count` bits: none of fewer than 0, all of 32 and more.
__device__ __forceinline__ u32 first_bits(int count) {
  u32 bits;
  asm("bmsk.clamp.b32 %0, 0, %1;" : "=r"(bits) : "r"(max(count, 0)));
  return bits;
}

__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float log2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float reciprocal_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Keeps values in registers at this point: the compiler may not move their computation across it.
template <int kCount>
__device__ __forceinline__ void pin(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}
// They hold nothing from here on. Matmuls that do not accumulate read what they replace, as far as the compiler knows:
// it would keep that, through a loop around them too, and serialise matmuls for want of registers (ptxas C7512).
template <int kCount>
__device__ __forceinline__ void forget(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "=f"(values[i]));
}

}  // namespace stof::cuda
