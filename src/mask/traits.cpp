// SPDX-License-Identifier: Apache-2.0
#include "src/mask/traits.h"

#include "src/mask/expression.h"

namespace stof {
namespace {

MaskTraits both(MaskTraits a, MaskTraits b) {
  return {.length = a.length || b.length, .batch = a.batch || b.batch, .head = a.head || b.head};
}

template <class Leaf>
MaskTraits traits(const Leaf& term) {
  return term.traits();
}

MaskTraits traits_of_all(const std::vector<Mask>& masks) {
  MaskTraits all = kPositions;
  for (const Mask& mask : masks) all = both(all, traits_of(mask));
  return all;
}

MaskTraits traits(const term::And& term) { return traits_of_all(term.masks); }

MaskTraits traits(const term::Or& term) { return traits_of_all(term.masks); }

MaskTraits traits(const term::Not& term) { return traits_of(term.mask); }

MaskTraits traits(const term::Select& term) {
  MaskTraits all = term.otherwise ? traits_of(*term.otherwise) : kPositions;
  for (const Selection& selection : term.selections) all = both(all, traits_of(selection.mask));
  (term.by == term::SelectBy::head ? all.head : all.batch) = true;
  return all;
}

}  // namespace

MaskTraits traits_of(const Mask& mask) {
  return std::visit([](const auto& kind) { return traits(kind); }, mask.node().term);
}

}  // namespace stof
