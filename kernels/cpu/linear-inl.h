// SPDX-License-Identifier: Apache-2.0
// The register-tiled product of a linear layer, and what is done to its sums before they are stored.
#if defined(STOF_KERNELS_CPU_LINEAR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STOF_KERNELS_CPU_LINEAR_INL_H_
#undef STOF_KERNELS_CPU_LINEAR_INL_H_
#else
#define STOF_KERNELS_CPU_LINEAR_INL_H_
#endif
#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cpu/activation-inl.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/storage-inl.h"
#include "kernels/cpu/tile_matmul-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stof::cpu::HWY_NAMESPACE {

// Accumulators: kTileRows * kVectors of the 32 (AVX-512) or 16 registers.
constexpr int kTileRows = kLanes == 16 ? 12 : 6;
// Words between rows of a slice of x: an odd number of cache lines, so that the rows of a tile do not meet in a set.
constexpr int kRowWords = static_cast<int>(kLinearSlice) + 16;
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

// Lines that are needed soon, brought into the second-level cache a few at a time: all at once they would wait for
// one another.
struct LinesAhead {
  const float* at = nullptr;
  int each = 0;  // lines for kLine words of a tile
};

// The same of the next rows of x, a line of each row for kLine words of a tile.
struct RowsAhead {
  const std::byte* at = nullptr;
  std::int64_t stride = 0;
  int rows = 0;
};

struct ProductTile {
  const float* x;       // rows of words, kRowWords apart
  const float* weight;  // [words][kPanel]
  float* sum;           // [rows][kPanel]
  int words;
  bool add;  // to what is in sum
  LinesAhead ahead;
  RowsAhead x_ahead;
};

template <class Words, int kCount>
HWY_NOINLINE void multiply_tile(const ProductTile& t) {
  const Floats d;
  FloatVec sum[kCount][kVectors];
  HWY_UNROLL(12)
  for (int r = 0; r < kCount; ++r) sum[r][0] = sum[r][1] = hn::Zero(d);
  const float* HWY_RESTRICT x = t.x;
  const float* HWY_RESTRICT weight = t.weight;
  const float* ahead = t.ahead.at;
  std::int64_t byte = 0;  // of the rows ahead
  for (int left = t.words; left > 0; left -= kLine, byte += kLineBytes) {
    for (int line = 0; line < t.ahead.each; ++line, ahead += kLine) __builtin_prefetch(ahead, 0, 2);
    for (int r = 0; r < t.x_ahead.rows; ++r) __builtin_prefetch(t.x_ahead.at + r * t.x_ahead.stride + byte, 0, 2);
    for (const float* const end = x + std::min(left, kLine); x < end; ++x, weight += kPanel) {
      const FloatVec w0 = hn::Load(d, weight);
      const FloatVec w1 = hn::Load(d, weight + kLanes);
      HWY_UNROLL(12)
      for (int r = 0; r < kCount; ++r) {
        const FloatVec word = hn::Set(d, x[r * kRowWords]);
        sum[r][0] = Words::multiply_add(word, w0, sum[r][0]);
        sum[r][1] = Words::multiply_add(word, w1, sum[r][1]);
      }
    }
  }
  HWY_UNROLL(12)
  for (int r = 0; r < kCount; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      float* const to = t.sum + r * kPanel + v * kLanes;
      hn::Store(t.add ? hn::Add(sum[r][v], hn::Load(d, to)) : sum[r][v], d, to);
    }
  }
}

template <class Words, int... kCounts>
HWY_INLINE void multiply_tile(int rows, const ProductTile& tile, std::integer_sequence<int, kCounts...>) {
  static_cast<void>(((rows == kCounts + 1 && (multiply_tile<Words, kCounts + 1>(tile), true)) || ...));
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

HWY_INLINE void store_out(Floats d, FloatVec value, float* to) { hn::StoreU(value, d, to); }
#if HWY_TARGET == HWY_AVX3
// By AVX512_BF16, a tenth of the instructions that store_row() takes; a subnormal number becomes 0.
HWY_INLINE void store_out(Floats, FloatVec value, hwy::bfloat16_t* to) {
  __m256i rounded;
  asm("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(value.raw));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), rounded);
}
#endif

template <class T, class Activate>
HWY_INLINE void finish_rows(const Finish& f, const Activate& activate) {
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
        store_out(d, value, out + c);
      } else {
        HWY_ALIGN T lanes[kLanes];
        store_out(d, value, lanes);
        std::memcpy(out + c, lanes, sizeof(T) * static_cast<std::size_t>(count));
      }
    }
  }
}

template <class T>
HWY_NOINLINE void finish_tile(LinearActivation activation, const Finish& f) {
  const Floats d;
  switch (activation) {
    case LinearActivation::none: return finish_rows<T>(f, [](FloatVec x) { return x; });
    case LinearActivation::gelu: return finish_rows<T>(f, [&](FloatVec x) { return gelu(d, x); });
    case LinearActivation::gelu_tanh: return finish_rows<T>(f, [&](FloatVec x) { return gelu_tanh(d, x); });
    case LinearActivation::silu: return finish_rows<T>(f, [&](FloatVec x) { return silu(d, x); });
    case LinearActivation::relu: return finish_rows<T>(f, [&](FloatVec x) { return relu(d, x); });
  }
}

// One slice of depth after the other; x is copied so that its rows are as far apart as suits the cache, sums of more
// than one slice wait in scratch. What takes a division is found once: a tile is over in some thousand cycles.
template <class Words, class T>
class LinearRun {
 public:
  LinearRun(const LinearNumbers& numbers, const LinearTask& task, float* scratch)
      : numbers_(numbers),
        task_(task),
        words_(linear_words(numbers)),
        slices_((words_ + kLinearSlice - 1) / kLinearSlice),
        tiles_((task.rows + kTileRows - 1) / kTileRows),
        x_(scratch),
        sums_(scratch + std::int64_t{task.rows} * kRowWords) {
    for (int tile = 0; tile <= tiles_; ++tile) first_row_[tile] = tile * task.rows / tiles_;
  }

  void run() const {
    Slice slice = slice_at(0);
    for (std::int64_t i = 0; i < slices_; ++i) {
      const Slice next = slice_at(i + 1);
      for (int panel = task_.begin; panel < task_.end; ++panel)
        for (int tile = 0; tile < tiles_; ++tile) {
          if (panel == task_.begin) copy_x(slice, tile);
          run_tile({.panel = panel, .tile = tile}, slice, next);
        }
      slice = next;
    }
  }

 private:
  static constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));
  static constexpr int kMostTiles = static_cast<int>(kLinearRows) / kTileRows + 1;

  struct Slice {
    std::int64_t first;  // word
    int words;           // 0: past the end
    int lines_each;      // that a tile brings near for kLine words, so that all tiles together bring a panel
    bool is_last;
  };
  struct Place {
    int panel, tile;
  };

  Slice slice_at(std::int64_t index) const {
    if (index == slices_) return {.first = words_, .words = 0, .lines_each = 0, .is_last = false};
    const std::int64_t first = index * words_ / slices_;
    const int words = static_cast<int>((index + 1) * words_ / slices_ - first);
    const int steps = tiles_ * ((words + kLine - 1) / kLine);
    return {.first = first,
            .words = words,
            .lines_each = (words * kPanel / kLine + steps - 1) / steps,
            .is_last = index + 1 == slices_};
  }
  const float* weight(const Slice& slice, int panel) const {
    return task_.weight + (panel * words_ + slice.first) * kPanel;
  }
  int rows_of(int tile) const { return first_row_[tile + 1] - first_row_[tile]; }

  const std::byte* x_of(const Slice& slice, int tile) const {
    return task_.x + (first_row_[tile] * numbers_.in + slice.first * Words::kEach) * kBytes;
  }
  void copy_x(const Slice& slice, int tile) const {
    const std::int64_t first = slice.first * Words::kEach;
    const std::int64_t count = std::min(first + slice.words * Words::kEach, numbers_.in) - first;
    const auto bytes = static_cast<std::size_t>(count * kBytes);
    const std::byte* from = x_of(slice, tile);
    for (int row = first_row_[tile]; row < first_row_[tile + 1]; ++row, from += numbers_.in * kBytes) {
      std::byte* const to = reinterpret_cast<std::byte*>(x_ + std::int64_t{row} * kRowWords);
      std::memcpy(to, from, bytes);
      if (count % Words::kEach != 0) std::memset(to + bytes, 0, sizeof(T));
    }
  }

  // What is copied after this tile.
  RowsAhead x_ahead(const Place& at, const Slice& slice, const Slice& next) const {
    const bool same = at.panel == task_.begin && at.tile + 1 < tiles_;
    const bool following = at.panel + 1 == task_.end && at.tile + 1 == tiles_ && next.words > 0;
    if (!same && !following) return {};
    const int then = same ? at.tile + 1 : 0;
    return {.at = x_of(same ? slice : next, then), .stride = numbers_.in * kBytes, .rows = rows_of(then)};
  }

  // The weights after those of this panel, of which each tile brings its part.
  LinesAhead ahead(const Place& at, const Slice& slice, const Slice& next) const {
    const float* then = at.panel + 1 < task_.end ? weight(slice, at.panel + 1)
                        : next.words > 0         ? weight(next, task_.begin)
                                                 : task_.next;
    if (then == nullptr) return {};
    const int lines = (slice.words + kLine - 1) / kLine * slice.lines_each;  // of a tile
    return {.at = then + std::int64_t{at.tile} * lines * kLine, .each = slice.lines_each};
  }

  void run_tile(const Place& at, const Slice& slice, const Slice& next) const {
    const int row = first_row_[at.tile], rows = rows_of(at.tile);
    const std::int64_t column = std::int64_t{at.panel} * kPanel;
    const std::int64_t corner = (row * numbers_.out + column) * kBytes;
    const Finish finish{
        .sum = slices_ == 1 ? sums_ : sums_ + (std::int64_t{at.panel - task_.begin} * task_.rows + row) * kPanel,
        .bias = task_.bias ? task_.bias + column : nullptr,
        .residual = task_.residual ? task_.residual + corner : nullptr,
        .out = task_.out + corner,
        .stride = numbers_.out,
        .rows = rows,
        .columns = static_cast<int>(std::min<std::int64_t>(kPanel, numbers_.out - column))};
    const bool adds = slice.first > 0;
    if (adds) bring_sums_near(finish);
    if (slice.is_last) bring_near<T>(finish);
    multiply_tile<Words>(rows,
                         {.x = x_ + std::int64_t{row} * kRowWords,
                          .weight = weight(slice, at.panel),
                          .sum = finish.sum,
                          .words = slice.words,
                          .add = adds,
                          .ahead = ahead(at, slice, next),
                          .x_ahead = x_ahead(at, slice, next)},
                         std::make_integer_sequence<int, kTileRows>());
    if (slice.is_last) finish_tile<T>(numbers_.activation, finish);
  }

  const LinearNumbers& numbers_;
  const LinearTask& task_;
  const std::int64_t words_, slices_;
  const int tiles_;
  float *const x_, *const sums_;
  int first_row_[kMostTiles + 1];
};

}  // namespace stof::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
