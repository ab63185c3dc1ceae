// SPDX-License-Identifier: Apache-2.0
// What sm_80 offers to a kernel of matrix products: products of 16 x 16 by 16 x 8 by one warp, fragments from shared
// memory, asynchronous copies. Accumulators lie as those of wgmma.cuh do, 16 rows a warp: lane l holds, for column
// block j, elements 4j + e: row l / 4 + 8 * (e >> 1), column 8j + 2 * (l % 4) + (e & 1).
#pragma once
#include "kernels/cuda/wgmma.cuh"

namespace stof::cuda {

// sums += a b. a: 16 x 16, b: 16 x 8.
template <class Element>
__device__ __forceinline__ void multiply_add(float* sums, const u32* a, u32 b0, u32 b1);
template <>
__device__ __forceinline__ void multiply_add<Half>(float* sums, const u32* a, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void multiply_add<Bfloat>(float* sums, const u32* a, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four matrices of 8 x 8, whose rows are the 16 bytes that lanes 0-7, 8-15, 16-23 and 24-31 name.
__device__ __forceinline__ void load_fragments(u32 (&to)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void load_transposed_fragments(u32 (&to)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

// 16 bytes of shared memory.
__device__ __forceinline__ uint4 shared_piece(u32 address) {
  uint4 words;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(address)
               : "memory");
  return words;
}
__device__ __forceinline__ void store_piece(u32 address, const uint4& words) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words.x), "r"(words.y), "r"(words.z),
               "r"(words.w)
               : "memory");
}

// 16 bytes, both addresses at multiples of 16; zeros, and nothing is read, unless `there`.
__device__ __forceinline__ void copy_piece(u32 target, const void* source, bool there) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(there ? 16 : 0)
               : "memory");
}
// Until this thread's copies are there; a barrier makes them everybody's.
__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// This thread's copies since the last call are a group. waits: until all but the last kPending groups are there.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void wait_for_copies_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Rows of kHeadDim elements in shared memory, in pieces of 16 bytes that are swapped within a row so that eight rows'
// pieces of one column lie in different banks. Row r + 8 swaps as row r does. The first row is at a multiple of 128.
template <int kHeadDim>
struct SwizzledRows {
  static constexpr int kPieces = kHeadDim / 8, kBytes = 2 * kHeadDim;
  static_assert(kPieces % 4 == 0, "the swap stays within the row");
  static __device__ __forceinline__ u32 offset(int row, int piece) {
    const int swap = kPieces % 8 == 0 ? row & 7 : row >> 1 & 3;
    return static_cast<u32>(row) * kBytes + (static_cast<u32>(piece ^ swap) << 4);
  }
  // From a row's piece 0 or 1 to the one `pieces`, an even constant, behind it.
  static __device__ __forceinline__ u32 along(u32 address, int pieces) {
    constexpr int kSwapped = kPieces % 8 == 0 ? 7 : 3;
    return (address ^ static_cast<u32>(pieces & kSwapped) << 4) + (static_cast<u32>(pieces & ~kSwapped) << 4);
  }
};

}  // namespace stof::cuda
