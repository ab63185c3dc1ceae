// SPDX-License-Identifier: Apache-2.0
#include "src/mask/traits.h"

#include <algorithm>

#include "src/mask/expression.h"

namespace stof {
namespace {

constexpr MaskTraits kDifference{.only_difference = true};
constexpr MaskTraits kLength{.length = true};

MaskTraits both(MaskTraits a, MaskTraits b) {
  return {.length = a.length || b.length,
          .batch = a.batch || b.batch,
          .head = a.head || b.head,
          .only_difference = a.only_difference && b.only_difference};
}

MaskTraits traits(const term::All&) { return kDifference; }
MaskTraits traits(const term::None&) { return kDifference; }
MaskTraits traits(const term::Causal&) { return kDifference; }
MaskTraits traits(const term::Window&) { return kDifference; }
MaskTraits traits(const term::Dilated&) { return kDifference; }
MaskTraits traits(const term::Strided&) { return kDifference; }
MaskTraits traits(const term::Global&) { return {}; }
MaskTraits traits(const term::Sink&) { return {}; }
MaskTraits traits(const term::Prefix&) { return {}; }
MaskTraits traits(const term::Documents&) { return {}; }
MaskTraits traits(const term::Segments&) { return {}; }
MaskTraits traits(const term::RandomBlocks&) { return kLength; }
// Its last blocks and its random draw look at the number of blocks.
MaskTraits traits(const term::BigBird&) { return kLength; }

MaskTraits traits(const term::Tree&) { return kLength; }
MaskTraits traits(const term::Natten&) { return kLength; }

MaskTraits traits(const term::Where& term) {
  const auto uses = [&](WhereOp op) {
    return std::any_of(term.steps.begin(), term.steps.end(), [&](const WhereStep& step) { return step.op == op; });
  };
  return {.batch = uses(WhereOp::item), .head = uses(WhereOp::head), .only_difference = only_difference(term.steps)};
}

MaskTraits traits(const term::DocumentIds& term) { return {.length = true, .batch = term.array->item_of.size() > 1}; }

MaskTraits traits(const term::Blocks& term) { return {.length = true, .head = term.table->slices > 1}; }

MaskTraits traits(const term::Bits& term) {
  const Shape& shape = term.array->shape;
  return {.length = true,
          .batch = shape.size() == 4 && shape[0] != 1,
          .head = shape.size() >= 3 && shape[shape.size() - 3] != 1};
}

MaskTraits traits(const term::And& term) {
  MaskTraits all = kDifference;
  for (const Mask& mask : term.masks) all = both(all, traits_of(mask));
  return all;
}

MaskTraits traits(const term::Or& term) { return traits(term::And{term.masks}); }

MaskTraits traits(const term::Not& term) { return traits_of(term.mask); }

MaskTraits traits(const term::Select& term) {
  MaskTraits all = term.otherwise ? traits_of(*term.otherwise) : kDifference;
  for (const Selection& selection : term.selections) all = both(all, traits_of(selection.mask));
  (term.by == term::SelectBy::head ? all.head : all.batch) = true;
  return all;
}

}  // namespace

MaskTraits traits_of(const Mask& mask) {
  return std::visit([](const auto& kind) { return traits(kind); }, mask.node().term);
}

}  // namespace stof
