// SPDX-License-Identifier: Apache-2.0
// Masks that allow only differences which some n > 1 divides. Seen by residue class, where position i of class c is
// position c + i n, such a mask is the same denser mask for every class: a dilated window is a window.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "src/mask/divisors.h"
#include "stof/mask.h"

namespace stof {

struct ResidueView {
  std::int64_t residues = 1;
  Mask of_class;
};

// Nothing where no n from 2 to kMostResidues divides every allowed difference that is not 0, and where more than the
// difference of position and key matters: terms that count positions differ from class to class.
std::optional<ResidueView> residue_view(const Mask& mask);

// A mask as two that have no pair in common: what it allows without its combs (dilated(), strided()) whose stride
// `combs.residues` divides, and what it allows besides, seen by residue class. Of `causal & (window(64) | strided(64))`
// the causal window, and every 64th key before it.
struct CombSplit {
  Mask rest;
  ResidueView combs;
};

// One for each stride of the mask's combs, at most kMostCombSplits, the largest strides first. None for a mask that has
// a residue_view, for strides of which a comb is negated, and where something depends on more than the difference.
inline constexpr std::size_t kMostCombSplits = 4;
std::vector<CombSplit> comb_splits(const Mask& mask);

}  // namespace stof
