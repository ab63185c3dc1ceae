// SPDX-License-Identifier: Apache-2.0
#include "src/mask/residues.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "src/mask/rewrite.h"
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

  std::optional<Mask> leaf(const Mask& mask) const {
    return std::visit([&](const auto& kind) { return of(kind); }, mask.node().term);
  }
  std::optional<Mask> negated(const Mask&, const Mask& after) const { return !after; }

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

  const std::int64_t n_;
};

std::optional<Mask> of_class(const Mask& mask, std::int64_t residues) { return rewrite(mask, OfClass(residues)); }

// Null where it is none.
const term::Comb* comb_of(const Mask& mask) {
  const Term& term = mask.node().term;
  if (const auto* dilated = std::get_if<term::Dilated>(&term)) return dilated;
  return std::get_if<term::Strided>(&term);
}

// Adds the strides of combs that allow more than the difference 0.
class Strides {
 public:
  explicit Strides(std::set<std::int64_t>& found) : found_(found) {}

  std::optional<Mask> leaf(const Mask& mask) const {
    if (const term::Comb* comb = comb_of(mask); comb != nullptr && comb->reach > 0 && comb->stride > 1)
      found_.insert(comb->stride);
    return mask;
  }
  std::optional<Mask> negated(const Mask& before, const Mask&) const { return before; }

 private:
  std::set<std::int64_t>& found_;
};

// The mask without its combs of strides that n divides, of which it allows less: nothing where one is negated.
class WithoutCombs {
 public:
  explicit WithoutCombs(std::int64_t n) : n_(n) {}

  std::optional<Mask> leaf(const Mask& mask) const {
    const term::Comb* comb = comb_of(mask);
    return comb != nullptr && comb->stride % n_ == 0 ? none() : mask;
  }
  std::optional<Mask> negated(const Mask& before, const Mask& after) const {
    return before == after ? std::optional(!before) : std::nullopt;
  }

 private:
  const std::int64_t n_;
};

}  // namespace

std::optional<ResidueView> residue_view(const Mask& mask) {
  const std::int64_t residues = divisor_of(mask);
  if (residues < 2 || residues > kMostResidues) return std::nullopt;
  std::optional<Mask> viewed = of_class(mask, residues);
  if (!viewed) return std::nullopt;
  return ResidueView{residues, std::move(*viewed)};
}

std::vector<CombSplit> comb_splits(const Mask& mask) {
  std::vector<CombSplit> splits;
  if (divisor_of(mask) != 1) return splits;
  std::set<std::int64_t> strides;
  rewrite(mask, Strides(strides));
  for (auto n = strides.rbegin(); n != strides.rend() && splits.size() < kMostCombSplits; ++n) {
    if (*n > kMostResidues) continue;
    const std::optional<Mask> rest = rewrite(mask, WithoutCombs(*n));
    if (!rest || *rest == none()) continue;
    const std::optional<Mask> whole = of_class(mask, *n), less = of_class(*rest, *n);
    if (!whole || !less || *less == all()) continue;  // the last: the rest has every multiple
    splits.push_back({*rest, {*n, *whole == all() ? !*less : *whole & !*less}});
  }
  return splits;
}

}  // namespace stof
