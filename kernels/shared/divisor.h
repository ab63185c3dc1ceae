// SPDX-License-Identifier: Apache-2.0
// Division by a number that the host knows, as a multiplication: on a GPU a division of integers takes some forty
// instructions, and several of them stand in front of a launch's first copies.
#pragma once

#ifdef __CUDACC__
#define STOF_ANYWHERE __host__ __device__ __forceinline__
#else
#define STOF_ANYWHERE inline
#endif

namespace stof::cuda {

// A positive number. n / divisor is exact for n from 0 on: with s = ceil(log2(value)) and m = ceil(2^(31+s) / value),
// n * m / 2^(31+s) is too large by n * (m * value - 2^(31+s)) / (value * 2^(31+s)), which is less than 1 / value as n
// is below 2^31 and the difference below 2^s (Granlund and Montgomery, Division by Invariant Integers using
// Multiplication, 1994).
struct Divisor {
  int value = 1;
  unsigned multiplier = 1u << 31;  // m
  int shift = 0;                   // s

  Divisor() = default;
  // NOLINTNEXTLINE(google-explicit-constructor,hicpp-explicit-conversions): where a number was, this may be
  STOF_ANYWHERE Divisor(int number) : value(number) {
    if (number < 1) return;  // nothing is divided by it
    while (shift < 31 && 1ll << shift < number) ++shift;
    multiplier = static_cast<unsigned>(((1ull << (31 + shift)) + static_cast<unsigned>(number) - 1) /
                                       static_cast<unsigned>(number));
  }
  // NOLINTNEXTLINE(google-explicit-constructor,hicpp-explicit-conversions)
  STOF_ANYWHERE operator int() const { return value; }

  friend STOF_ANYWHERE int operator/(int number, const Divisor& by) {
#ifdef __CUDA_ARCH__
    return static_cast<int>(__umulhi(2u * static_cast<unsigned>(number), by.multiplier) >> by.shift);
#else
    const unsigned long long product = 2ull * static_cast<unsigned>(number) * by.multiplier;
    return static_cast<int>(product >> 32 >> by.shift);
#endif
  }
};

}  // namespace stof::cuda
