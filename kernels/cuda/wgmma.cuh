// SPDX-License-Identifier: Apache-2.0
// Warpgroup matrix instructions of sm_90a, on tiles that bulk copies wrote with the 128-byte swizzle.
//
// A tile is columns of boxes, a box is rows of 128 bytes (64 elements): the 16-byte piece j of row r lies at
// r * 128 + ((j ^ (r & 7)) << 4), so a tile may start at any row that is a multiple of 8.
// Accumulators of m64nN: thread t of the warpgroup holds, for column block j, elements 4j + e:
//   row 16 * (t / 32) + (t % 32) / 4 + 8 * (e >> 1), column 8j + 2 * (t % 4) + (e & 1).
// Packed in pairs they are the A operand of the next instruction: the weights never leave the registers.
#pragma once
#include "kernels/cuda/ptx.cuh"

namespace stof::cuda {

struct Half {
  static __device__ __forceinline__ u32 pack(float low, float high) {
    u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
  }
};
struct Bfloat {
  static __device__ __forceinline__ u32 pack(float low, float high) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
  }
};

constexpr int kBoxColumns = 64;  // elements of 2 bytes in the 128 bytes of a swizzled row
constexpr int kRowBytes = 128;

// Low word of a shared-memory matrix descriptor: address, and the distance between boxes along N, both in 16 bytes. The
// high word is constant: 1024 bytes from 8 rows to the next 8, 128-byte swizzle.
__device__ __forceinline__ u32 descriptor(u32 address, u32 box_stride = 16) {
  return ((address & 0x3FFFF) >> 4) | (box_stride >> 4) << 16;
}
// Of the operand that a descriptor is of.
__device__ __forceinline__ u32 address_of(u32 descriptor) { return (descriptor & 0x3FFF) << 4; }
__device__ __forceinline__ u64 whole_descriptor(u32 low) {
  u64 whole;
  asm("mov.b64 %0, {%1, %2};" : "=l"(whole) : "r"(low), "n"(64 | 1 << 30));
  return whole;
}

// Before the first instruction of a batch, since registers that it reads or writes were written.
__device__ __forceinline__ void matmul_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void matmul_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void matmul_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// shared: A and B in shared memory, both K-major. registers: A in registers, B in shared memory with N contiguous.
template <class Element, int kN>
struct Wgmma;

// Operand lists cannot be written by templates.
#define STOF_R4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define STOF_R8(d, i)                                                                                         \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define STOF_R16(d) STOF_R8(d, 0), STOF_R8(d, 8)
#define STOF_R12(d) STOF_R8(d, 0), STOF_R4(d, 8)
#define STOF_R24(d) STOF_R16(d), STOF_R8(d, 16)
#define STOF_R32(d) STOF_R16(d), STOF_R8(d, 16), STOF_R8(d, 24)
#define STOF_R36(d) STOF_R32(d), STOF_R4(d, 32)
#define STOF_R48(d) STOF_R32(d), STOF_R8(d, 32), STOF_R8(d, 40)
#define STOF_R56(d) STOF_R48(d), STOF_R8(d, 48)
#define STOF_R64(d) STOF_R56(d), STOF_R8(d, 56)
#define STOF_R72(d) STOF_R64(d), STOF_R8(d, 64)
#define STOF_R80(d) STOF_R72(d), STOF_R8(d, 72)
#define STOF_R96(d) STOF_R80(d), STOF_R8(d, 80), STOF_R8(d, 88)
#define STOF_R128(d) STOF_R96(d), STOF_R8(d, 96), STOF_R8(d, 104), STOF_R8(d, 112), STOF_R8(d, 120)
#define STOF_N12 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11"
#define STOF_N16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define STOF_N24 STOF_N16 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define STOF_N32 STOF_N16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define STOF_N36 STOF_N32 ",%32,%33,%34,%35"
#define STOF_N48 STOF_N32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define STOF_N56 STOF_N48 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define STOF_N64 STOF_N48 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define STOF_N72 STOF_N64 ",%64,%65,%66,%67,%68,%69,%70,%71"
#define STOF_N80 STOF_N64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define STOF_N96 \
  STOF_N80       \
  ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define STOF_N128                                                                \
  STOF_N96                                                                       \
  ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111" \
  ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

#define STOF_WGMMA(ELEMENT, TYPE, N, R, A0, A1, A2, A3, A4, A5)                                                 \
  template <>                                                                                                   \
  struct Wgmma<ELEMENT, N> {                                                                                    \
    static __device__ __forceinline__ void shared(float (&d)[R], u32 a, u32 b, int accumulate) {                \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #A2 ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N        \
                   "k16.f32." TYPE "." TYPE " {" STOF_N##R "}, %" #A0 ", %" #A1 ", p, 1, 1, 0, 0;\n}"           \
                   : STOF_R##R(d)                                                                               \
                   : "l"(whole_descriptor(a)), "l"(whole_descriptor(b)), "r"(accumulate));                      \
    }                                                                                                           \
    static __device__ __forceinline__ void registers(float (&d)[R], const u32* a, u32 b, int accumulate) {      \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #A5 ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N        \
                   "k16.f32." TYPE "." TYPE " {" STOF_N##R "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #A4 \
                                                           ", p, 1, 1, 1;\n}"                                   \
                   : STOF_R##R(d)                                                                               \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(whole_descriptor(b)), "r"(accumulate));    \
    }                                                                                                           \
  };
#define STOF_WGMMA_BOTH(N, R, A0, A1, A2, A3, A4, A5)   \
  STOF_WGMMA(Half, "f16", N, R, A0, A1, A2, A3, A4, A5) \
  STOF_WGMMA(Bfloat, "bf16", N, R, A0, A1, A2, A3, A4, A5)

STOF_WGMMA_BOTH(24, 12, 12, 13, 14, 15, 16, 17)
STOF_WGMMA_BOTH(32, 16, 16, 17, 18, 19, 20, 21)
STOF_WGMMA_BOTH(48, 24, 24, 25, 26, 27, 28, 29)
STOF_WGMMA_BOTH(64, 32, 32, 33, 34, 35, 36, 37)
STOF_WGMMA_BOTH(72, 36, 36, 37, 38, 39, 40, 41)
STOF_WGMMA_BOTH(96, 48, 48, 49, 50, 51, 52, 53)
STOF_WGMMA_BOTH(112, 56, 56, 57, 58, 59, 60, 61)
STOF_WGMMA_BOTH(128, 64, 64, 65, 66, 67, 68, 69)
STOF_WGMMA_BOTH(144, 72, 72, 73, 74, 75, 76, 77)
STOF_WGMMA_BOTH(160, 80, 80, 81, 82, 83, 84, 85)
STOF_WGMMA_BOTH(192, 96, 96, 97, 98, 99, 100, 101)
STOF_WGMMA_BOTH(256, 128, 128, 129, 130, 131, 132, 133)

#undef STOF_WGMMA_BOTH
#undef STOF_WGMMA
#undef STOF_N12
#undef STOF_R12
#undef STOF_N16
#undef STOF_R16
#undef STOF_N24
#undef STOF_R24
#undef STOF_N32
#undef STOF_R32
#undef STOF_N36
#undef STOF_R36
#undef STOF_N48
#undef STOF_R48
#undef STOF_N56
#undef STOF_R56
#undef STOF_N64
#undef STOF_R64
#undef STOF_N72
#undef STOF_R72
#undef STOF_N80
#undef STOF_R80
#undef STOF_N96
#undef STOF_R96
#undef STOF_N128
#undef STOF_R128
#undef STOF_R8
#undef STOF_R4

// scores[64 x kKeys] = q k^T: q 64 rows, k kKeys rows, both kHeadDim wide in boxes box_stride bytes apart.
template <class Element, int kHeadDim, int kKeys>
__device__ __forceinline__ void issue_scores(float (&scores)[kKeys / 2], u32 q, u32 k) {
  constexpr int kQBox = 64 * kRowBytes / 16, kKBox = kKeys * kRowBytes / 16;
  matmul_fence();
#pragma unroll
  for (int i = 0; i < kHeadDim / 16; ++i)
    Wgmma<Element, kKeys>::shared(scores, q + i / 4 * kQBox + i % 4 * 2, k + i / 4 * kKBox + i % 4 * 2, i != 0);
  matmul_commit();
}

// out[64 x kHeadDim] += weights v, or = where it does not accumulate, over kKeys keys; v is a descriptor made with the
// distance between its boxes.
template <class Element, int kHeadDim, int kKeys, bool kAccumulate = true>
__device__ __forceinline__ void issue_values(float (&out)[kHeadDim / 2], const u32 (&weights)[kKeys / 4], u32 v) {
  matmul_fence();
#pragma unroll
  for (int i = 0; i < kKeys / 16; ++i)
    Wgmma<Element, kHeadDim>::registers(out, &weights[4 * i], v + i * (16 * kRowBytes / 16), kAccumulate || i != 0);
  matmul_commit();
}

}  // namespace stof::cuda
