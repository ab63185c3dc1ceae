// SPDX-License-Identifier: Apache-2.0
#include "src/mask/expression.h"

#include <algorithm>
#include <memory>

#include "src/base/error.h"
#include "src/base/hash.h"

namespace stof {
namespace {

template <class Visit>
void visit_children(const term::And& term, Visit visit) {
  for (const Mask& mask : term.masks) visit(mask.node());
}

template <class Visit>
void visit_children(const term::Or& term, Visit visit) {
  for (const Mask& mask : term.masks) visit(mask.node());
}

template <class Visit>
void visit_children(const term::Not& term, Visit visit) {
  visit(term.mask.node());
}

template <class Visit>
void visit_children(const term::Select& term, Visit visit) {
  for (const Selection& selection : term.selections) visit(selection.mask.node());
  if (term.otherwise) visit(term.otherwise->node());
}

template <class Leaf, class Visit>
void visit_children(const Leaf&, Visit) {}

// Flattened, in canonical order, without repetition.
template <class Combination>
Mask combine(std::vector<Mask> masks) {
  std::vector<Mask> parts;
  for (Mask& mask : masks) {
    if (const auto* same = std::get_if<Combination>(&mask.node().term))
      parts.insert(parts.end(), same->masks.begin(), same->masks.end());
    else parts.push_back(std::move(mask));
  }
  std::sort(parts.begin(), parts.end(),
            [](const Mask& x, const Mask& y) { return x.node().canonical < y.node().canonical; });
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  return parts.size() == 1 ? parts[0] : make_mask(Combination{std::move(parts)});
}

}  // namespace

Mask make_mask(Term term) {
  int depth = 1;
  std::size_t text = 0, terms = 0;
  const auto add = [&](const MaskNode& child) {
    depth = std::max(depth, child.depth + 1);
    text += child.canonical.size();
    terms += child.terms;
  };
  std::visit([&](const auto& kind) { visit_children(kind, add); }, term);
  if (depth > kMaxDepth)
    fail(ErrorKind::invalid_argument, "mask is nested {} deep; accepted: at most {}", depth, kMaxDepth);
  if (text > kMaxText)
    fail(ErrorKind::invalid_argument, "mask whose text has {} bytes; accepted: at most {}", text, kMaxText);
  if (depth == 1 || std::holds_alternative<term::Select>(term)) ++terms;
  if (terms > kMaxTerms) fail(ErrorKind::invalid_argument, "mask of {} terms; accepted: at most {}", terms, kMaxTerms);
  std::string canonical = std::visit([](const auto& kind) { return kind.print(ArrayNames::canonical); }, term);
  return Mask(std::make_shared<const MaskNode>(MaskNode{std::move(term), std::move(canonical), depth, terms}));
}

std::string print(const Mask& mask, ArrayNames names) {
  if (names == ArrayNames::canonical) return mask.node().canonical;
  return std::visit([&](const auto& kind) { return kind.print(names); }, mask.node().term);
}

std::string Mask::text() const { return print(*this, ArrayNames::display); }

std::string Mask::fingerprint() const { return fingerprint_of(node_->canonical).hex(); }

bool operator==(const Mask& a, const Mask& b) { return a.node_ == b.node_ || a.node_->canonical == b.node_->canonical; }

Mask conjunction(std::vector<Mask> masks) { return combine<term::And>(std::move(masks)); }

Mask disjunction(std::vector<Mask> masks) { return combine<term::Or>(std::move(masks)); }

Mask operator&(const Mask& a, const Mask& b) { return conjunction({a, b}); }

Mask operator|(const Mask& a, const Mask& b) { return disjunction({a, b}); }

Mask operator!(const Mask& a) {
  if (const auto* inner = std::get_if<term::Not>(&a.node().term)) return inner->mask;
  return make_mask(term::Not{a});
}

}  // namespace stof
