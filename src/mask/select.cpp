// SPDX-License-Identifier: Apache-2.0
// heads() and batch().
#include <algorithm>
#include <utility>

#include "src/mask/argument.h"
#include "src/mask/expression.h"

namespace stof {
namespace {

Mask select(term::SelectBy by, std::vector<Selection> selections, std::optional<Mask> otherwise) {
  term::Select term{.by = by, .selections = {}, .otherwise = std::move(otherwise)};
  if (selections.empty() && !term.otherwise) fail_argument({0}, "{}: no selection; accepted: one or more", term.name());
  check_elements(term.name(), selections.size(), kMaxTerms);  // each is compared with each
  for (std::size_t i = 0; i < selections.size(); ++i) {
    const auto& [first, last, mask] = selections[i];
    const auto element = static_cast<std::int64_t>(i);
    if (first == last && (first < 0 || last >= kMaxExtent))
      fail_argument({0, element}, "{}: index {}; accepted: 0 to {}", term.name(), first, kMaxExtent - 1);
    if (first < 0 || last < first || last >= kMaxExtent)
      fail_argument({0, element}, "{}: range {}-{}; accepted: first-last with 0 <= first <= last <= {}", term.name(),
                    first, last, kMaxExtent - 1);
    for (std::size_t j = 0; j < i; ++j)
      if (const Selection& other = selections[j]; first <= other.last && other.first <= last)
        fail_argument({0, element}, "{}: {} is selected twice", term.name(), std::max(first, other.first));
  }
  std::sort(selections.begin(), selections.end(),
            [](const Selection& a, const Selection& b) { return a.first < b.first; });
  term.selections = std::move(selections);
  return make_mask(std::move(term));
}

}  // namespace

Mask heads(std::vector<Selection> selections) { return select(term::SelectBy::head, std::move(selections), {}); }

Mask heads(std::vector<Selection> selections, Mask otherwise) {
  return select(term::SelectBy::head, std::move(selections), std::move(otherwise));
}

Mask batch(std::vector<Selection> selections) { return select(term::SelectBy::item, std::move(selections), {}); }

Mask batch(std::vector<Selection> selections, Mask otherwise) {
  return select(term::SelectBy::item, std::move(selections), std::move(otherwise));
}

}  // namespace stof
