// SPDX-License-Identifier: Apache-2.0
// The register-tiled product of a linear layer.
#if defined(STOF_KERNELS_CPU_LINEAR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STOF_KERNELS_CPU_LINEAR_INL_H_
#undef STOF_KERNELS_CPU_LINEAR_INL_H_
#else
#define STOF_KERNELS_CPU_LINEAR_INL_H_
#endif
#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cpu/linear.h"
#include "kernels/cpu/linear_sums-inl.h"
#include "kernels/cpu/tile_matmul-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stof::cpu::HWY_NAMESPACE {

// Accumulators: kTileRows * kVectors of the 32 (AVX-512) or 16 registers.
constexpr int kTileRows = kLanes == 16 ? 12 : 6;
// Words between rows of a slice of x: an odd number of cache lines, so that the rows of a tile do not meet in a set.
constexpr int kRowWords = static_cast<int>(kLinearSlice) + 16;

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
  int words;
  LinesAhead ahead;
  RowsAhead x_ahead;
};

// `end` takes the sums.
template <class Words, int kCount, class End>
HWY_NOINLINE void multiply_tile(const ProductTile& t, const End& end) {
  const Floats d;
  TileSums<kCount> sum;
  HWY_UNROLL(12)
  for (int r = 0; r < kCount; ++r) sum[r][0] = sum[r][1] = hn::Zero(d);
  const float* HWY_RESTRICT x = t.x;
  const float* HWY_RESTRICT weight = t.weight;
  const float* ahead = t.ahead.at;
  std::int64_t byte = 0;  // of the rows ahead
  for (int left = t.words; left > 0; left -= kLine, byte += kLineBytes) {
    for (int line = 0; line < t.ahead.each; ++line, ahead += kLine) __builtin_prefetch(ahead, 0, 2);
    for (int r = 0; r < t.x_ahead.rows; ++r) __builtin_prefetch(t.x_ahead.at + r * t.x_ahead.stride + byte, 0, 2);
    for (const float* const stop = x + std::min(left, kLine); x < stop; ++x, weight += kPanel) {
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
  end(sum);
}

template <class Words, class End, int... kCounts>
void multiply_rows(int rows, const ProductTile& tile, const End& end, std::integer_sequence<int, kCounts...>) {
  static_cast<void>(((rows == kCounts + 1 && (multiply_tile<Words, kCounts + 1>(tile, end), true)) || ...));
}
template <class Words, class End>
void multiply_rows(int rows, const ProductTile& tile, const End& end) {
  multiply_rows<Words>(rows, tile, end, std::make_integer_sequence<int, kTileRows>());
}

// One slice of depth after the other; x is copied so that its rows are as far apart as suits the cache, sums of more
// than one slice wait in scratch. What takes a division is found once: a tile is over in some thousand cycles.
template <class Numbers>
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
  using T = typename Numbers::T;
  using Words = typename Numbers::Words;
  static constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));
  static constexpr bool kWidens = kBytes * Words::kEach < static_cast<std::int64_t>(sizeof(float));
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
    const std::byte* from = x_of(slice, tile);
    for (int row = first_row_[tile]; row < first_row_[tile + 1]; ++row, from += numbers_.in * kBytes)
      copy_row(slice, from, x_ + std::int64_t{row} * kRowWords);
  }
  void copy_row(const Slice& slice, const std::byte* from, float* to) const {
    if constexpr (kWidens) {
      widen_row(reinterpret_cast<const T*>(from), slice.words, to, slice.words);  // kRowWords are whole vectors
    } else {
      const std::int64_t first = slice.first * Words::kEach;
      const std::int64_t count = std::min(first + slice.words * Words::kEach, numbers_.in) - first;
      const auto bytes = static_cast<std::size_t>(count * kBytes);
      std::memcpy(to, from, bytes);
      if (count % Words::kEach != 0) std::memset(reinterpret_cast<std::byte*>(to) + bytes, 0, sizeof(T));
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
    const std::int64_t across = numbers_.out_columns();
    const int width = numbers_.gate ? kPanel / 2 : kPanel;  // of what a panel writes
    const std::int64_t column = std::int64_t{at.panel} * width;
    const std::int64_t corner = (row * across + column) * kBytes;
    const Finish finish{
        .sum = slices_ == 1 ? sums_ : sums_ + (std::int64_t{at.panel - task_.begin} * task_.rows + row) * kPanel,
        .bias = task_.bias ? task_.bias + std::int64_t{at.panel} * kPanel : nullptr,
        .residual = task_.residual ? task_.residual + corner : nullptr,
        .out = task_.out + corner,
        .stride = across,
        .rows = rows,
        .columns = static_cast<int>(std::min<std::int64_t>(width, across - column))};
    const bool adds = slice.first > 0;
    if (adds) bring_sums_near(finish);
    if (slice.is_last) bring_near<T>(finish);
    multiply_and_end({.x = x_ + std::int64_t{row} * kRowWords,
                      .weight = weight(slice, at.panel),
                      .words = slice.words,
                      .ahead = ahead(at, slice, next),
                      .x_ahead = x_ahead(at, slice, next)},
                     finish, adds, slice.is_last);
  }

  void multiply_and_end(const ProductTile& tile, const Finish& finish, bool adds, bool is_last) const {
    if (is_last && !numbers_.gate && finish.columns == kPanel && finish.bias != nullptr) {
      const bool plain = numbers_.activation == LinearActivation::none, adds_residual = finish.residual != nullptr;
      if (plain && adds_residual)
        return multiply_rows<Words>(finish.rows, tile, FinishSums<Numbers, NoActivation, true>{finish, adds});
      if (plain) return multiply_rows<Words>(finish.rows, tile, FinishSums<Numbers, NoActivation, false>{finish, adds});
      if (numbers_.activation == LinearActivation::gelu && !adds_residual)
        return multiply_rows<Words>(finish.rows, tile, FinishSums<Numbers, Gelu, false>{finish, adds});
    }
    multiply_rows<Words>(finish.rows, tile, KeepSums{finish.sum, adds});
    if (is_last && numbers_.gate) finish_gate_tile<Numbers>(numbers_.activation, finish);
    else if (is_last) finish_tile<Numbers>(numbers_.activation, finish);
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
