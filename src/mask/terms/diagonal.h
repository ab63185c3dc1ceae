// SPDX-License-Identifier: Apache-2.0
// Terms that depend on the difference of position and key alone.
#pragma once
#include <cstdint>
#include <string>

#include "src/mask/array_names.h"
#include "src/mask/range.h"
#include "src/mask/row_bits.h"
#include "src/mask/traits.h"

namespace stof::term {

// Terms with keys(p) allow one interval of keys per row whose two ends never decrease with p; evaluate.cpp derives
// allows, classify and bits from it.
struct All {
  static Range keys(std::int64_t) { return {-kMaxParameter, kMaxParameter}; }
  static std::string print(ArrayNames) { return "all"; }
  static constexpr MaskTraits traits() { return kPositions; }
};

struct None {
  static Range keys(std::int64_t) { return {0, 0}; }
  static std::string print(ArrayNames) { return "none"; }
  static constexpr MaskTraits traits() { return kPositions; }
};

struct Causal {
  static Range keys(std::int64_t p) { return {-kMaxParameter, p + 1}; }
  static std::string print(ArrayNames) { return "causal"; }
  static constexpr MaskTraits traits() { return kPositions; }
};

struct Window {
  std::int64_t left, right;
  Range keys(std::int64_t p) const { return {p - left, p + right + 1}; }
  std::string print(ArrayNames) const;
  static constexpr MaskTraits traits() { return kPositions; }
};

// Every stride-th difference, as far as `reach` on both sides.
struct Comb {
  Comb(std::int64_t stride_, std::int64_t reach_);
  std::int64_t stride, reach;
  std::uint64_t teeth = 0;  // bits 0, stride, 2 stride, ... of a word
  bool allows(std::int64_t p, std::int64_t key) const;
  BlockKind classify(Range positions, Range keys) const;
  void fill(const TileBits& tile) const;

 private:
  void fill_words(std::int64_t phase, Range reached, RowBits row) const;  // phase: of the first tooth
};

struct Dilated : Comb {
  Dilated(std::int64_t steps_, std::int64_t dilation) : Comb(dilation, steps_ * dilation), steps(steps_) {}
  std::int64_t steps;
  std::string print(ArrayNames) const;
  static constexpr MaskTraits traits() { return kPositions; }
};

struct Strided : Comb {
  explicit Strided(std::int64_t stride_) : Comb(stride_, kMaxParameter) {}
  std::string print(ArrayNames) const;
  static constexpr MaskTraits traits() { return kPositions; }
};

}  // namespace stof::term
