// SPDX-License-Identifier: Apache-2.0
// What a thread has of a row: 16 bytes, or one element where rows do not lie so; and of weights beside them.
#pragma once
#include "kernels/cuda/storage.cuh"

namespace stof::cuda {

// One element, of any number and at any address.
template <class Storage>
struct OneElement {
  static constexpr int kCount = 1;
  using Stored = typename Storage::Stored;
  using Words = Stored;  // as Vector::Words
  static __device__ __forceinline__ Words read(const Stored* from) { return *from; }
  static __device__ __forceinline__ void unpack(Words word, float (&x)[1]) { x[0] = Storage::load(word); }
  static __device__ __forceinline__ void load(const Stored* from, float (&x)[1]) { x[0] = Storage::load(*from); }
  static __device__ __forceinline__ void store(Stored* to, const float (&x)[1]) { *to = Storage::store(x[0]); }
};
template <class Storage, bool kVectors>
struct Piece : Vector<Storage> {};
template <class Storage>
struct Piece<Storage, false> : OneElement<Storage> {};

// At an address that is a multiple of 16, unless it is one.
template <int kCount>
__device__ __forceinline__ void load_floats(const float* from, float (&x)[kCount]) {
  if constexpr (kCount == 1) x[0] = *from;
  else
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      const float4 four = *reinterpret_cast<const float4*>(from + i);
      x[i] = four.x, x[i + 1] = four.y, x[i + 2] = four.z, x[i + 3] = four.w;
    }
}

}  // namespace stof::cuda
