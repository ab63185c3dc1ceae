// SPDX-License-Identifier: Apache-2.0
// What a thread has of a row: 16 bytes, or one element where rows do not lie so.
#pragma once
#include "kernels/cuda/storage.cuh"

namespace stof::cuda {

// One element, of any number and at any address.
template <class Storage>
struct OneElement {
  static constexpr int kCount = 1;
  using Stored = typename Storage::Stored;
  static __device__ __forceinline__ void load(const Stored* from, float (&x)[1]) { x[0] = Storage::load(*from); }
  static __device__ __forceinline__ void store(Stored* to, const float (&x)[1]) { *to = Storage::store(x[0]); }
};
template <class Storage, bool kVectors>
struct Piece : Vector<Storage> {};
template <class Storage>
struct Piece<Storage, false> : OneElement<Storage> {};

}  // namespace stof::cuda
