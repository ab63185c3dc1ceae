// SPDX-License-Identifier: Apache-2.0
// What is done to the sums of a tile of a linear layer before they are stored: bias, activation, residual, rounding.
#if defined(STOF_KERNELS_CPU_LINEAR_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STOF_KERNELS_CPU_LINEAR_SUMS_INL_H_
#undef STOF_KERNELS_CPU_LINEAR_SUMS_INL_H_
#else
#define STOF_KERNELS_CPU_LINEAR_SUMS_INL_H_
#endif
#include <algorithm>
#include <cstring>

#include "kernels/cpu/activation-inl.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/storage-inl.h"
#include "kernels/cpu/tile_matmul-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stof::cpu::HWY_NAMESPACE {

constexpr int kLine = 16;  // floats
constexpr int kLineBytes = 64;

// Brings a line near that will be written. Where a processor does not know the instruction it does nothing.
HWY_INLINE void prefetch_to_write(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

struct Finish {
  float* sum;         // [rows][kPanel]
  const float* bias;  // [kPanel], or null
  const std::byte* residual;
  std::byte* out;
  std::int64_t stride;  // of residual and out, in elements
  int rows, columns;
};

inline void bring_sums_near(const Finish& f) {
  for (int line = 0; line < f.rows * kPanel; line += kLine) prefetch_to_write(f.sum + line);
}

// What the end of a tile reads and writes, while the tile is multiplied: rows lie on a page each, and the stores of one
// after the other would wait for it.
template <class T>
HWY_INLINE void bring_near(const Finish& f) {
  const int bytes = f.columns * static_cast<int>(sizeof(T));
  const std::int64_t stride = f.stride * static_cast<std::int64_t>(sizeof(T));
  for (int r = 0; r < f.rows; ++r)
    for (int byte = 0; byte < bytes; byte += kLineBytes) {
      prefetch_to_write(f.out + r * stride + byte);
      if (f.residual) __builtin_prefetch(f.residual + r * stride + byte);
    }
}

// What x, the residual and the result are stored as, and which words are multiplied.
struct Floats32 {
  using T = float;
  using Words = FloatWords;
  static HWY_INLINE void store(FloatVec value, T* to) { hn::StoreU(value, Floats(), to); }
};
struct WidenedBf16 {
  using T = hwy::bfloat16_t;
  using Words = FloatWords;
  static HWY_INLINE void store(FloatVec value, T* to) { store_row(Floats(), value, to); }
};
#if HWY_TARGET == HWY_AVX3
struct PairedBf16 {
  using T = hwy::bfloat16_t;
  using Words = PairWords;
  // By AVX512_BF16, a tenth of the instructions that store_row() takes; a subnormal number becomes 0.
  static HWY_INLINE void store(FloatVec value, T* to) {
    __m256i rounded;
    asm("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(value.raw));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), rounded);
  }
};
#endif

template <class Numbers, class Activate>
HWY_INLINE void finish_rows(const Finish& f, const Activate& activate) {
  using T = typename Numbers::T;
  const Floats d;
  for (int r = 0; r < f.rows; ++r) {
    T* const out = reinterpret_cast<T*>(f.out) + r * f.stride;
    const T* const residual = f.residual ? reinterpret_cast<const T*>(f.residual) + r * f.stride : nullptr;
    for (int c = 0; c < f.columns; c += kLanes) {
      const int count = std::min(kLanes, f.columns - c);
      FloatVec value = hn::Load(d, f.sum + r * kPanel + c);
      if (f.bias) value = hn::Add(value, hn::Load(d, f.bias + c));
      value = activate(value);
      if (residual)
        value = hn::Add(value, count == kLanes ? load_row(d, residual + c) : load_tail(d, residual + c, count));
      if (count == kLanes) {
        Numbers::store(value, out + c);
      } else {
        HWY_ALIGN T lanes[kLanes];
        Numbers::store(value, lanes);
        std::memcpy(out + c, lanes, sizeof(T) * static_cast<std::size_t>(count));
      }
    }
  }
}

// A panel is one vector of a gate and one of what it lets through.
template <class Numbers, class Activate>
HWY_INLINE void finish_gate(const Finish& f, const Activate& activate) {
  using T = typename Numbers::T;
  const Floats d;
  for (int r = 0; r < f.rows; ++r) {
    T* const out = reinterpret_cast<T*>(f.out) + r * f.stride;
    FloatVec gate = hn::Load(d, f.sum + r * kPanel), other = hn::Load(d, f.sum + r * kPanel + kLanes);
    if (f.bias) gate = hn::Add(gate, hn::Load(d, f.bias)), other = hn::Add(other, hn::Load(d, f.bias + kLanes));
    const FloatVec value = hn::Mul(activate(gate), other);
    if (f.columns == kLanes) {
      Numbers::store(value, out);
    } else {
      HWY_ALIGN T lanes[kLanes];
      Numbers::store(value, lanes);
      std::memcpy(out, lanes, sizeof(T) * static_cast<std::size_t>(f.columns));
    }
  }
}

// Calls finish with the function of vectors that the activation is.
template <class Body>
HWY_INLINE void with_activation(LinearActivation activation, const Body& finish) {
  const Floats d;
  switch (activation) {
    case LinearActivation::none: return finish([](FloatVec x) { return x; });
    case LinearActivation::gelu: return finish([&](FloatVec x) { return gelu(d, x); });
    case LinearActivation::gelu_tanh: return finish([&](FloatVec x) { return gelu_tanh(d, x); });
    case LinearActivation::silu: return finish([&](FloatVec x) { return silu(d, x); });
    case LinearActivation::relu: return finish([&](FloatVec x) { return relu(d, x); });
    case LinearActivation::tanh: return finish([&](FloatVec x) { return tanh(d, x); });
  }
}

template <class Numbers>
HWY_NOINLINE void finish_tile(LinearActivation activation, const Finish& f) {
  with_activation(activation, [&](const auto& activate) { finish_rows<Numbers>(f, activate); });
}
template <class Numbers>
HWY_NOINLINE void finish_gate_tile(LinearActivation activation, const Finish& f) {
  with_activation(activation, [&](const auto& activate) { finish_gate<Numbers>(f, activate); });
}

template <int kCount>
using TileSums = FloatVec[kCount][kVectors];

// The two ends of a tile whose sums are in registers: they wait for the next slice or for finish_tile(), ...
struct KeepSums {
  float* to;  // [rows][kPanel]
  bool add;   // to what is there
  template <int kCount>
  HWY_INLINE void operator()(TileSums<kCount>& sum) const {
    const Floats d;
    HWY_UNROLL(12)
    for (int r = 0; r < kCount; ++r)
      for (int v = 0; v < kVectors; ++v) {
        float* const at = to + r * kPanel + v * kLanes;
        hn::Store(add ? hn::Add(sum[r][v], hn::Load(d, at)) : sum[r][v], d, at);
      }
  }
};

// ... or are finished where they are, for whole panels and what most layers do, with the same bits. That takes half of
// the time that finish_tile() does, as sums are not stored and read again and nothing is decided for each vector.
template <class Numbers, class Activate, bool kResidual>
struct FinishSums {
  using T = typename Numbers::T;
  const Finish& f;
  bool add;  // to what waits in f.sum
  template <int kCount>
  HWY_INLINE void operator()(TileSums<kCount>& sum) const {
    const Floats d;
    if (add) {
      HWY_UNROLL(12)
      for (int r = 0; r < kCount; ++r)
        for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Add(sum[r][v], hn::Load(d, f.sum + r * kPanel + v * kLanes));
    }
    const FloatVec bias[kVectors] = {hn::Load(d, f.bias), hn::Load(d, f.bias + kLanes)};
    T* out = reinterpret_cast<T*>(f.out);
    const T* residual = reinterpret_cast<const T*>(f.residual);
    HWY_UNROLL(12)
    for (int r = 0; r < kCount; ++r, out += f.stride) {
      for (int v = 0; v < kVectors; ++v) {
        FloatVec value = Activate::of(hn::Add(sum[r][v], bias[v]));
        if constexpr (kResidual) value = hn::Add(value, load_row(d, residual + v * kLanes));
        Numbers::store(value, out + v * kLanes);
      }
      if constexpr (kResidual) residual += f.stride;
    }
  }
};

struct NoActivation {
  static HWY_INLINE FloatVec of(FloatVec x) { return x; }
};
struct Gelu {
  static HWY_INLINE FloatVec of(FloatVec x) { return gelu(Floats(), x); }
};

}  // namespace stof::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
