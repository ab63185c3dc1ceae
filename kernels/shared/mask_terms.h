// SPDX-License-Identifier: Apache-2.0
// What mask predicates are composed of: one function a term, of its numbers, the position q and the key k. Plain C++ as
// well as CUDA. |q| and |k| stay below 2^30, so that differences fit an int.
#pragma once

#if defined(__CUDACC__)
#define STOF_DEVICE __device__ __forceinline__
#else
#define STOF_DEVICE inline
#endif

namespace stof::mask_terms {

STOF_DEVICE bool causal(int q, int k) { return k <= q; }
STOF_DEVICE bool window(int left, int right, int q, int k) { return (q - k <= left) & (k - q <= right); }
// Every stride-th difference, as far as `reach` on both sides.
STOF_DEVICE bool comb(int stride, int reach, int q, int k) {
  const int difference = q - k;
  return (difference <= reach) & (-reach <= difference) & (difference % stride == 0);
}
STOF_DEVICE bool sink(int count, int k) { return k < count; }
STOF_DEVICE bool prefix(int count, int q, int k) { return (k <= q) | (k < count); }
STOF_DEVICE bool global(int first, int q, int k) { return ((0 <= q) & (q < first)) | (k < first); }
STOF_DEVICE bool within(int first, int last, int index) { return (first <= index) & (index <= last); }

// The cells of one side of a grid that a query at x sees: `kernel` of them around it, shifted into [0, size).
STOF_DEVICE bool neighbour(int x, int cell, int kernel, int size) {
  const int latest = size - kernel, centred = x - kernel / 2;
  const int begin = centred < 0 ? 0 : centred > latest ? latest : centred;
  return (begin <= cell) & (cell < begin + kernel);
}
struct Grid {
  int height, width, kernel_height, kernel_width;
};
STOF_DEVICE bool natten(const Grid& grid, int q, int k) {
  return neighbour(q / grid.width, k / grid.width, grid.kernel_height, grid.height) &
         neighbour(q % grid.width, k % grid.width, grid.kernel_width, grid.width);
}

// Arithmetic of where(): division rounds towards minus infinity.
STOF_DEVICE int divide(int a, int b) { return a / b - ((a % b != 0) & ((a < 0) != (b < 0))); }
STOF_DEVICE int remainder(int a, int b) {
  const int r = a % b;
  return (r != 0) & ((r < 0) != (b < 0)) ? r + b : r;
}
STOF_DEVICE int absolute(int a) { return a < 0 ? -a : a; }
STOF_DEVICE int least(int a, int b) { return a < b ? a : b; }
STOF_DEVICE int greatest(int a, int b) { return a < b ? b : a; }

}  // namespace stof::mask_terms
