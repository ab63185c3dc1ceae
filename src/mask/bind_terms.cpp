// SPDX-License-Identifier: Apache-2.0
// From the tree to a bound tree: one overload of bind_term per kind of term, and of key_of for those that depend on
// head or item.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "src/base/error.h"
#include "src/mask/bound.h"
#include "src/mask/where_parts.h"

namespace stof::bound {
namespace {

// ---- terms that are what they are for every extent

template <class Leaf>
Node bind_term(const Leaf& term, const Place&) {
  return Node{term};
}

Node bind_term(const term::Dilated& term, const Place&) { return Node{term::Comb(term)}; }

Node bind_term(const term::Strided& term, const Place&) { return Node{term::Comb(term)}; }

// ---- documents

Node bind_term(const term::Documents& term, const Place& place) {
  const std::int64_t keys = place.extent.keys;
  if (term.starts.back() >= keys)
    fail(ErrorKind::invalid_argument, "documents: start {} for {} keys; accepted: starts below the number of keys",
         term.starts.back(), keys);
  std::vector<std::int64_t> ids(term.starts.size());
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  return Node{SameDocument(term.starts, std::move(ids), keys)};
}

void check_fit(const term::DocumentIds& term, const MaskExtent& extent) {
  const Shape& shape = term.array->shape;
  if (shape.back() != extent.keys || (shape.size() == 2 && shape[0] != extent.batch && shape[0] != 1))
    fail(ErrorKind::invalid_argument, "document_ids: {} is {}; accepted: [{}] or [{}, {}], where 1 fits every batch",
         term.array->source.subject(), to_string(shape), extent.keys, extent.batch, extent.keys);
}

std::int64_t slice_of(const term::DocumentIds& term, const Place& place) {
  check_fit(term, place.extent);
  const std::vector<std::int64_t>& item_of = term.array->item_of;
  return item_of.size() > 1 ? item_of[static_cast<std::size_t>(place.item)] : 0;
}

Node bind_term(const term::DocumentIds& term, const Place& place) {
  const std::int64_t keys = place.extent.keys;
  const std::int32_t* ids = term.array->ids.data() + slice_of(term, place) * keys;
  std::vector<std::int64_t> begins, run_ids;
  for (std::int64_t j = 0; j < keys; ++j) {
    const std::int64_t id = std::max(ids[j], -1);
    if (!run_ids.empty() && run_ids.back() == id) continue;
    begins.push_back(j);
    run_ids.push_back(id);
  }
  return Node{SameDocument(std::move(begins), std::move(run_ids), keys)};
}

// ---- blocks

void check_fit(const term::Blocks& term, const MaskExtent& extent) {
  const Shape& shape = term.table->shape;
  const std::int64_t columns = ceil_div(extent.keys, term.size);
  if (shape.back() != columns || (shape.size() == 3 && shape[0] != extent.heads))
    fail(ErrorKind::invalid_argument, "blocks: {} is {}; accepted: [{}, {}] or [{}, {}, {}]",
         term.table->source.subject(), to_string(shape), columns, columns, extent.heads, columns, columns);
}

std::int64_t slice_of(const term::Blocks& term, const Place& place) {
  check_fit(term, place.extent);
  return term.table->shape.size() == 3 ? term.table->slice_of[static_cast<std::size_t>(place.head)] : 0;
}

Node bind_term(const term::Blocks& term, const Place& place) {
  return Node{bind(term, slice_of(term, place), place.extent)};
}

Node bind_term(const term::RandomBlocks& term, const Place& place) { return Node{bind(term, place.extent)}; }

Node bind_term(const term::BigBird& term, const Place& place) { return Node{bind(term, place.extent)}; }

// ---- bits

void check_fit(const term::Bits& term, const MaskExtent& extent) {
  const auto& [queries, keys, batch, heads] = extent;
  const Shape accepted{batch, heads, queries, keys};
  const Shape& shape = term.array->shape;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (const std::int64_t size = accepted[accepted.size() - shape.size() + d]; shape[d] != size && shape[d] != 1)
      fail(ErrorKind::invalid_argument,
           "bits: {} is {}; accepted: [{}, {}], [{}, {}, {}] or [{}, {}, {}, {}], where 1 fits every size",
           term.array->source.subject(), to_string(shape), queries, keys, heads, queries, keys, batch, heads, queries,
           keys);
}

std::int64_t slice_of(const term::Bits& term, const Place& place) {
  check_fit(term, place.extent);
  const Shape& shape = term.array->shape;
  const std::int64_t heads = shape.size() >= 3 ? shape[shape.size() - 3] : 1;
  const std::int64_t item = shape.size() == 4 && shape[0] != 1 ? place.item : 0;
  const std::int64_t head = heads != 1 ? place.head : 0;
  return term.array->slice_of[static_cast<std::size_t>(item * heads + head)];
}

Node bind_term(const term::Bits& term, const Place& place) {
  return Node{DenseBits(term.array, slice_of(term, place), place.extent.offset())};
}

// ---- trees and grids

Node bind_term(const term::Tree& term, const Place& place) {
  const auto count = static_cast<std::int64_t>(term.parents.size());
  if (count != place.extent.keys)
    fail(ErrorKind::invalid_argument, "tree: {} parents for {} keys; accepted: one per key", count, place.extent.keys);
  return Node{Ancestors(term.parents)};
}

Node bind_term(const term::Natten& term, const Place& place) {
  const std::int64_t cells = term.height * term.width;
  if (place.extent.queries != cells || place.extent.keys != cells)
    fail(ErrorKind::invalid_argument, "natten: {} queries and {} keys; accepted: {} x {} = {} of both",
         place.extent.queries, place.extent.keys, term.height, term.width, cells);
  return Node{term};
}

// ---- where

// What joins truths is joined as masks are where a part repeats from key to key and the whole does not: where the rest
// says nothing, that part is known again. So are parts of parts. Of what is narrow nothing fails, whichever part is
// asked.
std::optional<Node> joined(const Where& whole, const std::vector<WhereStep>& steps, const Place& place) {
  constexpr std::size_t kMostParts = 8;
  if (!whole.narrow() || whole.only_difference() || whole.periods().keys > 0) return std::nullopt;
  const WhereParts split = where_parts(steps);
  if (split.parts.size() < 2 || split.parts.size() > kMostParts) return std::nullopt;
  std::vector<Node> nodes;
  bool repeats = false;
  for (const std::vector<WhereStep>& part_steps : split.parts) {
    Where part({part_steps}, place.item, place.head, place.extent);
    std::optional<Node> of_parts = joined(part, part_steps, place);
    repeats = repeats || of_parts || part.periods().keys > 0;
    nodes.push_back(of_parts ? std::move(*of_parts) : Node{std::move(part)});
  }
  if (!repeats) return std::nullopt;
  return split.op == WhereOp::bit_or ? Node{Or{std::move(nodes)}} : Node{And{std::move(nodes)}};
}

Node bind_term(const term::Where& term, const Place& place) {
  Where whole(term, place.item, place.head, place.extent);
  std::optional<Node> of_parts = joined(whole, specialise(term.steps, place.item, place.head), place);
  return of_parts ? std::move(*of_parts) : Node{std::move(whole)};
}

// ---- terms made of masks

std::vector<Node> bind_all(const std::vector<Mask>& masks, const Place& place) {
  std::vector<Node> nodes;
  for (const Mask& mask : masks) nodes.push_back(bind(mask, place));
  return nodes;
}

Node bind_term(const term::And& term, const Place& place) { return Node{And{bind_all(term.masks, place)}}; }

Node bind_term(const term::Or& term, const Place& place) { return Node{Or{bind_all(term.masks, place)}}; }

Node bind_term(const term::Not& term, const Place& place) {
  return Node{Not{std::make_unique<Node>(bind(term.mask, place))}};
}

const Mask& selected(const term::Select& term, const Place& place) {
  const bool heads = term.by == term::SelectBy::head;
  term.check(heads ? place.extent.heads : place.extent.batch);
  return term.at(heads ? place.head : place.item);
}

Node bind_term(const term::Select& term, const Place& place) { return bind(selected(term, place), place); }

// ---- keys: what differs between heads and items

template <class Leaf>
void key_of(const Leaf& term, const Place& place, std::string& key) {
  if constexpr (requires { slice_of(term, place); }) key += fmt::format("{};", slice_of(term, place));
}

void key_of(const term::Where& term, const Place& place, std::string& key) {
  key += fmt::format("{};", print_where(specialise(term.steps, place.item, place.head)));
}

void key_of(const term::And& term, const Place& place, std::string& key) {
  for (const Mask& mask : term.masks) append_key(mask, place, key);
}

void key_of(const term::Or& term, const Place& place, std::string& key) {
  for (const Mask& mask : term.masks) append_key(mask, place, key);
}

void key_of(const term::Not& term, const Place& place, std::string& key) { append_key(term.mask, place, key); }

void key_of(const term::Select& term, const Place& place, std::string& key) {
  const Mask& mask = selected(term, place);
  if (!std::holds_alternative<term::Select>(mask.node().term)) key += fmt::format("{};", mask.node().canonical);
  append_key(mask, place, key);
}

}  // namespace

Node bind(const Mask& mask, const Place& place) {
  return std::visit([&](const auto& term) { return bind_term(term, place); }, mask.node().term);
}

void append_key(const Mask& mask, const Place& place, std::string& key) {
  std::visit([&](const auto& term) { key_of(term, place, key); }, mask.node().term);
}

}  // namespace stof::bound
