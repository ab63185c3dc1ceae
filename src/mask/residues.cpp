// SPDX-License-Identifier: Apache-2.0
#include "src/mask/residues.h"

#include <numeric>
#include <utility>

#include "src/mask/expression.h"
#include "src/mask/traits.h"
#include "src/mask/where_residues.h"

namespace stof {
namespace {

std::int64_t divisor_of(const Mask& mask);

// Divides every allowed difference; 0 where only the difference 0 is allowed, or nothing.
template <class Leaf>
std::int64_t divisor(const Leaf&) {
  return 1;
}
std::int64_t divisor(const term::None&) { return 0; }
std::int64_t divisor(const term::Window& term) { return term.left == 0 && term.right == 0 ? 0 : 1; }
std::int64_t divisor(const term::Comb& term) { return term.reach == 0 ? 0 : term.stride; }
std::int64_t divisor(const term::Dilated& term) { return divisor(static_cast<const term::Comb&>(term)); }
std::int64_t divisor(const term::Strided& term) { return divisor(static_cast<const term::Comb&>(term)); }

std::int64_t divisor(const term::Where& term) { return where_divisor(term.steps); }

std::int64_t divisor(const term::And& term) {
  std::int64_t all = 1;
  for (const Mask& mask : term.masks) all = common_multiple(all, divisor_of(mask));
  return all;
}

std::int64_t divisor(const term::Or& term) {
  std::int64_t all = 0;
  for (const Mask& mask : term.masks) all = std::gcd(all, divisor_of(mask));
  return all;
}

std::int64_t divisor(const term::Select& term) {
  std::int64_t all = term.otherwise ? divisor_of(*term.otherwise) : 0;
  for (const Selection& selection : term.selections) all = std::gcd(all, divisor_of(selection.mask));
  return all;
}

std::int64_t divisor_of(const Mask& mask) {
  return std::visit([](const auto& kind) { return divisor(kind); }, mask.node().term);
}

// The mask of differences that are n times as large, term by term.
class OfClass {
 public:
  explicit OfClass(std::int64_t residues) : n_(residues) {}

  std::optional<Mask> operator()(const Mask& mask) const {
    return std::visit([&](const auto& kind) { return of(kind); }, mask.node().term);
  }

 private:
  template <class Leaf>
  std::optional<Mask> of(const Leaf&) const {
    return std::nullopt;
  }
  std::optional<Mask> of(const term::All&) const { return all(); }
  std::optional<Mask> of(const term::None&) const { return none(); }
  std::optional<Mask> of(const term::Causal&) const { return causal(); }
  std::optional<Mask> of(const term::Window& term) const { return window(term.left / n_, term.right / n_); }
  // Differences i n are multiples of the stride where i is one of this.
  std::int64_t stride_of(const term::Comb& term) const { return term.stride / std::gcd(term.stride, n_); }
  std::optional<Mask> of(const term::Dilated& term) const {
    const std::int64_t stride = stride_of(term);
    return stride == 1 ? window(term.reach / n_) : dilated(term.reach / n_ / stride, stride);
  }
  std::optional<Mask> of(const term::Strided& term) const {
    const std::int64_t stride = stride_of(term);
    return stride == 1 ? all() : strided(stride);
  }
  std::optional<Mask> of(const term::Where& term) const {
    std::optional<std::vector<WhereStep>> steps = where_of_class(term.steps, n_);
    if (!steps) return std::nullopt;
    if (steps->size() == 1 && steps->front().op == WhereOp::constant) return steps->front().value != 0 ? all() : none();
    return make_where(std::move(*steps));
  }
  std::optional<Mask> of(const term::And& term) const {
    std::optional<std::vector<Mask>> inner = each(term.masks);
    if (!inner) return std::nullopt;
    std::erase(*inner, all());
    return inner->empty() ? all() : conjunction(std::move(*inner));
  }
  std::optional<Mask> of(const term::Or& term) const {
    std::optional<std::vector<Mask>> inner = each(term.masks);
    return inner ? std::optional(disjunction(std::move(*inner))) : std::nullopt;
  }
  std::optional<Mask> of(const term::Not& term) const {
    const std::optional<Mask> inner = (*this)(term.mask);
    return inner ? std::optional(!*inner) : std::nullopt;
  }
  std::optional<Mask> of(const term::Select& term) const {
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

  std::optional<std::vector<Mask>> each(const std::vector<Mask>& masks) const {
    std::vector<Mask> inner;
    for (const Mask& mask : masks) {
      std::optional<Mask> one = (*this)(mask);
      if (!one) return std::nullopt;
      inner.push_back(std::move(*one));
    }
    return inner;
  }

  const std::int64_t n_;
};

}  // namespace

std::optional<ResidueView> residue_view(const Mask& mask) {
  const std::int64_t residues = divisor_of(mask);
  if (residues < 2 || residues > kMostResidues) return std::nullopt;
  std::optional<Mask> of_class = OfClass(residues)(mask);
  if (!of_class) return std::nullopt;
  return ResidueView{residues, std::move(*of_class)};
}

}  // namespace stof
