// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "src/mask/terms/documents.h"

namespace stof::term {
namespace {

// The keys that one segment allows to position p.
Range keys_of(const Segment& segment, std::int64_t p) {
  if (p < segment.query_begin || p >= segment.query_end) return {0, 0};
  if (!segment.causal) return {segment.key_begin, segment.key_end};
  return {segment.key_begin, std::min(segment.key_end, p - segment.query_end + segment.key_end + 1)};
}

BlockKind classify_one(const Segment& segment, Range positions, Range keys) {
  const Range inside = intersect(positions, {segment.query_begin, segment.query_end});
  if (inside.empty()) return BlockKind::empty;
  // The key intervals grow with p.
  if (intersect(keys, keys_of(segment, inside.end - 1)).empty()) return BlockKind::empty;
  const bool full = inside == positions && keys_of(segment, inside.begin).contains(keys);
  return full ? BlockKind::full : BlockKind::partial;
}

auto order_of(const Segment& s) { return std::tuple(s.query_begin, s.query_end, s.key_begin, s.key_end, s.causal); }

}  // namespace

Segments::Segments(std::vector<Segment> given) : segments(std::move(given)) {
  std::sort(segments.begin(), segments.end(),
            [](const Segment& a, const Segment& b) { return order_of(a) < order_of(b); });
  const auto same = [](const Segment& a, const Segment& b) { return order_of(a) == order_of(b); };
  segments.erase(std::unique(segments.begin(), segments.end(), same), segments.end());
  for (const Segment& segment : segments)
    reach.push_back(std::max(segment.query_end, reach.empty() ? segment.query_end : reach.back()));
}

Range Segments::candidates(Range positions) const {
  const auto end = std::partition_point(segments.begin(), segments.end(),
                                        [&](const Segment& s) { return s.query_begin < positions.end; });
  const auto begin = std::upper_bound(reach.begin(), reach.end(), positions.begin);
  return {begin - reach.begin(), end - segments.begin()};
}

bool Segments::allows(std::int64_t p, std::int64_t key) const {
  const Range range = candidates({p, p + 1});
  for (std::int64_t i = range.begin; i < range.end; ++i)
    if (keys_of(segments[static_cast<std::size_t>(i)], p).contains(key)) return true;
  return false;
}

BlockKind Segments::classify(Range positions, Range keys) const {
  BlockKind kind = BlockKind::empty;
  const Range range = candidates(positions);
  for (std::int64_t i = range.begin; i < range.end && kind != BlockKind::full; ++i)
    kind = std::max(kind, classify_one(segments[static_cast<std::size_t>(i)], positions, keys));
  return kind;
}

void Segments::fill(std::int64_t p, RowBits row) const {
  const Range range = candidates({p, p + 1});
  for (std::int64_t i = range.begin; i < range.end; ++i) row.allow(keys_of(segments[static_cast<std::size_t>(i)], p));
}

std::string Segments::print(ArrayNames) const {
  std::string text = "segments([";
  for (const Segment& s : segments)
    text += fmt::format("{}[{},{},{},{},\"{}\"]", &s == segments.data() ? "" : ",", s.query_begin, s.query_end,
                        s.key_begin, s.key_end, s.causal ? "causal" : "full");
  return text + "])";
}

}  // namespace stof::term
