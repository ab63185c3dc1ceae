// SPDX-License-Identifier: Apache-2.0
// Masks that allow only differences which some n > 1 divides. Seen by residue class, where position i of class c is
// position c + i n, such a mask is the same denser mask for every class: a dilated window is a window.
#pragma once
#include <cstdint>
#include <optional>

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

}  // namespace stof
