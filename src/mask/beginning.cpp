// SPDX-License-Identifier: Apache-2.0
#include "src/mask/beginning.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "src/mask/expression.h"
#include "src/mask/named_arrays.h"

namespace stof {
namespace {

class Beginning {
 public:
  explicit Beginning(std::int64_t keys) : keys_(keys) {}

  Mask operator()(const Mask& mask) const {
    return std::visit([&](const auto& kind) { return of(kind, mask); }, mask.node().term);
  }

 private:
  template <class Leaf>
  Mask of(const Leaf&, const Mask& mask) const {
    return mask;
  }

  Mask of(const term::Documents& term, const Mask&) const {
    std::vector<std::int64_t> starts = term.starts;
    starts.erase(std::lower_bound(starts.begin(), starts.end(), keys_), starts.end());
    return documents(std::move(starts));
  }

  Mask of(const term::DocumentIds& term, const Mask& mask) const {
    const term::DocumentIds::Array& array = *term.array;
    const std::int64_t length = array.shape.back();
    if (length <= keys_) return mask;
    Shape shape = array.shape;
    shape.back() = keys_;
    const Tensor ids(DType::i32, shape);
    for (std::int64_t row = 0; row < element_count(shape) / keys_; ++row)
      std::copy_n(array.ids.data() + row * length, keys_, ids.as<std::int32_t>() + row * keys_);
    return document_ids(ids.view(), array.source.file);
  }

  Mask of(const term::Blocks& term, const Mask& mask) const {
    const BitArray& table = *term.table;
    const std::int64_t side = ceil_div(keys_, term.size);
    if (table.columns <= side) return mask;
    Shape shape = table.shape;
    shape.back() = shape[shape.size() - 2] = side;
    const Tensor allowed(DType::boolean, shape);
    auto* at = allowed.as<std::uint8_t>();
    for (const std::int64_t slice : table.slice_of)
      for (std::int64_t row = 0; row < side; ++row)
        for (std::int64_t column = 0; column < side; ++column) *at++ = table.at(slice, row, column) ? 1 : 0;
    return blocks(term.size, allowed.view(), table.source.file);
  }

  Mask of(const term::Tree& term, const Mask&) const {
    std::vector<std::int64_t> parents = term.parents;
    parents.resize(std::min(parents.size(), static_cast<std::size_t>(keys_)));
    return tree(std::move(parents));
  }

  Mask of(const term::And& term, const Mask&) const { return conjunction(each(term.masks)); }
  Mask of(const term::Or& term, const Mask&) const { return disjunction(each(term.masks)); }
  Mask of(const term::Not& term, const Mask&) const { return !(*this)(term.mask); }

  Mask of(const term::Select& term, const Mask&) const {
    std::vector<Selection> selections = term.selections;
    for (Selection& selection : selections) selection.mask = (*this)(selection.mask);
    const bool by_head = term.by == term::SelectBy::head;
    if (!term.otherwise) return by_head ? heads(std::move(selections)) : batch(std::move(selections));
    Mask otherwise = (*this)(*term.otherwise);
    return by_head ? heads(std::move(selections), std::move(otherwise))
                   : batch(std::move(selections), std::move(otherwise));
  }

  std::vector<Mask> each(std::vector<Mask> masks) const {
    for (Mask& mask : masks) mask = (*this)(mask);
    return masks;
  }

  std::int64_t keys_;
};

}  // namespace

Mask beginning_of(const Mask& mask, std::int64_t keys) { return Beginning(keys)(mask); }

}  // namespace stof
