// SPDX-License-Identifier: Apache-2.0
// How numbers are stored, and arithmetic in fp32 on them: one at a time, or 16 bytes of a row at a time.
#pragma once

namespace stof::cuda {

struct Single {
  using Stored = float;
  static __device__ __forceinline__ float load(float x) { return x; }
  static __device__ __forceinline__ float store(float x) { return x; }
};
struct StoredHalf {
  using Stored = unsigned short;
  static constexpr bool kHasWideRange = false;  // as float has
  static __device__ __forceinline__ float load(unsigned short x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
  }
  static __device__ __forceinline__ unsigned short store(float x) {
    unsigned short y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
  }
  // The first value lies in the low half.
  static __device__ __forceinline__ void load_pair(unsigned pair, float& first, float& second) {
    asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %2;\ncvt.f32.f16 %0, low;\ncvt.f32.f16 %1, high;\n}"
        : "=f"(first), "=f"(second)
        : "r"(pair));
  }
  static __device__ __forceinline__ unsigned store_pair(float first, float second) {
    unsigned pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
  }
};
struct StoredBfloat {
  using Stored = unsigned short;
  static constexpr bool kHasWideRange = true;
  static __device__ __forceinline__ float load(unsigned short x) { return __uint_as_float(unsigned(x) << 16); }
  // To the nearest, ties to even.
  static __device__ __forceinline__ unsigned short store(float x) {
    const unsigned bits = __float_as_uint(x);
    if (x != x) return 0x7fff;
    return static_cast<unsigned short>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  static __device__ __forceinline__ void load_pair(unsigned pair, float& first, float& second) {
    first = __uint_as_float(pair << 16);
    second = __uint_as_float(pair & 0xffff0000u);
  }
  static __device__ __forceinline__ unsigned store_pair(float first, float second) {
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
  }
};

// 16 bytes of a row, at an address that is a multiple of 16.
template <class Storage>
struct Vector {
  static constexpr int kCount = 8;
  using Words = uint4;  // as they are stored: whoever unpacks them waits for them
  // One load, which the compiler would take apart, and put where each of its words is used. Past L1: rows are read
  // once.
  static __device__ __forceinline__ Words read(const unsigned short* from) {
    return __ldcg(reinterpret_cast<const Words*>(from));
  }
  static __device__ __forceinline__ void unpack(const Words& words, float (&x)[kCount]) {
    Storage::load_pair(words.x, x[0], x[1]);
    Storage::load_pair(words.y, x[2], x[3]);
    Storage::load_pair(words.z, x[4], x[5]);
    Storage::load_pair(words.w, x[6], x[7]);
  }
  static __device__ __forceinline__ void load(const unsigned short* from, float (&x)[kCount]) { unpack(read(from), x); }
  static __device__ __forceinline__ void store(unsigned short* to, const float (&x)[kCount]) {
    *reinterpret_cast<uint4*>(to) = {Storage::store_pair(x[0], x[1]), Storage::store_pair(x[2], x[3]),
                                     Storage::store_pair(x[4], x[5]), Storage::store_pair(x[6], x[7])};
  }
};
template <>
struct Vector<Single> {
  static constexpr int kCount = 4;
  using Words = float4;
  static __device__ __forceinline__ Words read(const float* from) {
    return __ldcg(reinterpret_cast<const Words*>(from));
  }
  static __device__ __forceinline__ void unpack(const Words& words, float (&x)[kCount]) {
    x[0] = words.x, x[1] = words.y, x[2] = words.z, x[3] = words.w;
  }
  static __device__ __forceinline__ void load(const float* from, float (&x)[kCount]) { unpack(read(from), x); }
  static __device__ __forceinline__ void store(float* to, const float (&x)[kCount]) {
    *reinterpret_cast<float4*>(to) = {x[0], x[1], x[2], x[3]};
  }
};

}  // namespace stof::cuda
