// SPDX-License-Identifier: Apache-2.0
#include "src/mask/outline.h"

#include <bit>

#include "src/mask/bound.h"

namespace stof::bound {
namespace {

// A leaf that answers about rectangles alone: a partial range is halved until a few cells are left, each of which is
// asked.
template <class Leaf>
void halve(const Leaf& leaf, const CellGrid& grid, Range cells, Outline& out) {
  constexpr std::int64_t kCellsAtOnce = 8;
  if (cells.empty()) return;
  const BlockKind kind = leaf.classify(grid.positions, grid.keys_of(cells));
  if (kind != BlockKind::partial || cells.size() == 1) return out.add(cells, kind);
  if (cells.size() <= kCellsAtOnce) {
    for (std::int64_t cell = cells.begin; cell < cells.end; ++cell)
      out.add({cell, cell + 1}, leaf.classify(grid.positions, grid.keys_of({cell, cell + 1})));
    return;
  }
  // Halves of a power of two, so that ranges nest the same way for every band of rows.
  const auto half = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(cells.size())) / 2);
  halve(leaf, grid, {cells.begin, cells.begin + half}, out);
  halve(leaf, grid, {cells.begin + half, cells.end}, out);
}

template <class Leaf>
void outline_of(const Leaf& leaf, const CellGrid& grid, Range cells, Outline& out) {
  halve(leaf, grid, cells, out);
}

// Both ends of the interval never decrease with p, so the first and last row bound all rows.
template <OneInterval Leaf>
void outline_of(const Leaf& leaf, const CellGrid& grid, Range cells, Outline& out) {
  const Range first = leaf.keys(grid.positions.begin), last = leaf.keys(grid.positions.end - 1);
  out.add(cells, grid.touched({first.begin, last.end}), grid.inside(intersect(first, last)));
}

// Leaves that know more about a band than about its rectangles.
template <class Leaf>
requires requires(const Leaf& leaf, const CellGrid& grid, Outline& out) {
  { leaf.outline(grid, Range{}, out) } -> std::same_as<bool>;
}
void outline_of(const Leaf& leaf, const CellGrid& grid, Range cells, Outline& out) {
  if (!leaf.outline(grid, cells, out)) halve(leaf, grid, cells, out);
}

// Each mask is asked about what those before leave undecided.
void outline_of(const And& both, const CellGrid& grid, Range cells, Outline& out) {
  Outline left, asked, next;
  left.add(cells, BlockKind::full);
  for (const Node& node : both.nodes) {
    next.clear();
    for (const Outline::Run& run : left.runs()) {
      asked.clear();
      outline(node, grid, run.cells, asked);
      for (const Outline::Run& part : asked.runs()) next.add(part.cells, std::min(run.kind, part.kind));
    }
    std::swap(left, next);
  }
  for (const Outline::Run& run : left.runs()) out.add(run.cells, run.kind);
}

// Of cells that a mask before has left at `least`: empty or partial.
void join(const Node& node, const CellGrid& grid, Outline::Run least, Outline& out) {
  if (least.cells.empty()) return;
  Outline asked;
  outline(node, grid, least.cells, asked);
  std::int64_t begin = least.cells.begin;
  for (const Outline::Run& part : asked.runs()) {
    out.add({begin, part.cells.begin}, least.kind);
    out.add(part.cells, part.kind);
    begin = part.cells.end;
  }
  out.add({begin, least.cells.end}, least.kind);
}

void outline_of(const Or& either, const CellGrid& grid, Range cells, Outline& out) {
  Outline found, next;
  for (const Node& node : either.nodes) {
    next.clear();
    std::int64_t begin = cells.begin;
    for (const Outline::Run& run : found.runs()) {
      join(node, grid, {{begin, run.cells.begin}, BlockKind::empty}, next);
      if (run.kind == BlockKind::full) next.add(run.cells, run.kind);
      else join(node, grid, run, next);
      begin = run.cells.end;
    }
    join(node, grid, {{begin, cells.end}, BlockKind::empty}, next);
    std::swap(found, next);
  }
  for (const Outline::Run& run : found.runs()) out.add(run.cells, run.kind);
}

void outline_of(const Not& inverse, const CellGrid& grid, Range cells, Outline& out) {
  Outline found;
  outline(*inverse.node, grid, cells, found);
  std::int64_t begin = cells.begin;
  for (const Outline::Run& run : found.runs()) {
    out.add({begin, run.cells.begin}, BlockKind::full);
    if (run.kind == BlockKind::partial) out.add(run.cells, run.kind);
    begin = run.cells.end;
  }
  out.add({begin, cells.end}, BlockKind::full);
}

}  // namespace

void outline(const Node& node, const CellGrid& grid, Range cells, Outline& out) {
  std::visit([&](const auto& term) { outline_of(term, grid, cells, out); }, node.term);
}

}  // namespace stof::bound
