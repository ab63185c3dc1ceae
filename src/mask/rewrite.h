// SPDX-License-Identifier: Apache-2.0
// A mask with other leaves: conjunctions, disjunctions, negations and heads() stay, less what says nothing any more.
#pragma once
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "src/mask/expression.h"

namespace stof {

template <class Leaves>
class Rewrite {
 public:
  explicit Rewrite(const Leaves& leaves) : leaves_(leaves) {}

  std::optional<Mask> operator()(const Mask& mask) const {
    return std::visit([&](const auto& kind) { return of(kind, mask); }, mask.node().term);
  }

 private:
  template <class Leaf>
  std::optional<Mask> of(const Leaf&, const Mask& mask) const {
    return leaves_.leaf(mask);
  }
  std::optional<Mask> of(const term::And& term, const Mask&) const {
    return together(term.masks, all(), none(), [](auto masks) { return conjunction(std::move(masks)); });
  }
  std::optional<Mask> of(const term::Or& term, const Mask&) const {
    return together(term.masks, none(), all(), [](auto masks) { return disjunction(std::move(masks)); });
  }
  std::optional<Mask> of(const term::Not& term, const Mask&) const {
    const std::optional<Mask> inner = (*this)(term.mask);
    return inner ? leaves_.negated(term.mask, *inner) : std::nullopt;
  }
  std::optional<Mask> of(const term::Select& term, const Mask&) const {
    if (term.by == term::SelectBy::item) return std::nullopt;
    std::vector<Selection> selections;
    for (const Selection& selection : term.selections) {
      std::optional<Mask> inner = (*this)(selection.mask);
      if (!inner) return std::nullopt;
      selections.push_back({selection.first, selection.last, std::move(*inner)});
    }
    if (!term.otherwise) return heads(std::move(selections));
    std::optional<Mask> otherwise = (*this)(*term.otherwise);
    return otherwise ? std::optional(heads(std::move(selections), std::move(*otherwise))) : std::nullopt;
  }

  // `neutral` changes nothing among the others, `deciding` is all that counts.
  template <class Join>
  std::optional<Mask> together(const std::vector<Mask>& masks, const Mask& neutral, const Mask& deciding,
                               const Join& join) const {
    std::vector<Mask> inner;
    for (const Mask& mask : masks) {
      std::optional<Mask> one = (*this)(mask);
      if (!one) return std::nullopt;
      inner.push_back(std::move(*one));
    }
    if (std::find(inner.begin(), inner.end(), deciding) != inner.end()) return deciding;
    std::erase(inner, neutral);
    return inner.empty() ? neutral : join(std::move(inner));
  }

  const Leaves& leaves_;
};

// Leaves: leaf(mask) for what holds no other mask, negated(before, after) for what a negation holds. Either may give
// nothing, and then there is no such mask; nor is there one of batch().
template <class Leaves>
std::optional<Mask> rewrite(const Mask& mask, const Leaves& leaves) {
  return Rewrite<Leaves>(leaves)(mask);
}

}  // namespace stof
