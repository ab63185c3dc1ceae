// SPDX-License-Identifier: Apache-2.0
// Rows of q, keys or values on their way from global to shared memory, without a copy engine: from any address, with
// zeros where there are none.
#pragma once
#include "kernels/cuda/mma.cuh"

namespace stof::cuda {

// Where the rows of a tile come from: row 0 at `first`; only rows [begin, end) are there.
struct RowSource {
  const unsigned short* first;
  long long stride;
  int begin, end;
  __device__ __forceinline__ bool has(int row) const { return row >= begin && row < end; }
  __device__ __forceinline__ const unsigned short* at(int row) const { return first + row * stride; }
  // Of `row` + `rows`, from where `row` is.
  __device__ __forceinline__ const unsigned short* next(const unsigned short* here, int, int rows) const {
    return here + rows * stride;
  }
};

// The same of keys from `key` on, in pages: the first one's row 0 of the head at `first`.
struct PagedRowSource {
  const unsigned short* first;
  long long stride, page_stride;
  const int* pages;  // of the item
  int shift, key, end;
  __device__ __forceinline__ bool has(int row) const { return row < end; }
  __device__ __forceinline__ const unsigned short* at(int row) const {
    const int in_item = key + (has(row) ? row : 0);  // of which there is a page
    return first + __ldg(pages + (in_item >> shift)) * page_stride + (in_item & ((1 << shift) - 1)) * stride;
  }
  __device__ __forceinline__ const unsigned short* next(const unsigned short*, int row, int rows) const {
    return at(row + rows);
  }
};

// Rows of a tile to shared memory, zeros where there is no row or column: nothing past an item's end is ever a factor.
template <class Rows, int kRows, int kThreads, class Source>
__device__ __forceinline__ void copy_rows(u32 to, Source from, int head_dim) {
  // Eight pieces of a row are a line. A thread's rows are a multiple of 8 apart: it swaps its pieces by one number.
  constexpr int kAcross = Rows::kPieces % 8 == 0 ? 8 : 4, kDown = kThreads / kAcross;
  const int first_row = static_cast<int>(threadIdx.x) / kAcross, first_piece = static_cast<int>(threadIdx.x) % kAcross;
  from.first += 8 * first_piece;
  const unsigned short* source = from.at(first_row);
  const u32 target = to + Rows::offset(first_row, first_piece);
#pragma unroll
  for (int row = 0; row < kRows; row += kDown) {
    const bool there = from.has(first_row + row);
#pragma unroll
    for (int piece = 0; piece < Rows::kPieces; piece += kAcross)
      copy_piece(target + row * Rows::kBytes + 16 * piece, source + 8 * piece,
                 there && 8 * (first_piece + piece) < head_dim);
    if (row + kDown < kRows) source = from.next(source, first_row + row, kDown);
  }
}
// The same from any address, an element at a time.
template <class Rows, int kRows, int kThreads, class Source>
__device__ __forceinline__ void gather_rows(unsigned char* to, const Source& from, int head_dim) {
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < kRows * Rows::kPieces; i += kThreads) {
    const int row = i / Rows::kPieces, piece = i % Rows::kPieces;
    const int columns = from.has(row) ? head_dim - 8 * piece : 0;
    const unsigned short* const source = from.at(row) + 8 * piece;
    u32 pairs[4] = {};
#pragma unroll
    for (int c = 0; c < 8; ++c)
      if (c < columns) pairs[c / 2] |= static_cast<u32>(source[c]) << 16 * (c & 1);
    *reinterpret_cast<uint4*>(to + Rows::offset(row, piece)) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  }
}

}  // namespace stof::cuda
