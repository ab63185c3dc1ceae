// SPDX-License-Identifier: Apache-2.0
#include "src/fusion/fuse.h"

#include <algorithm>
#include <array>

#include "src/graph/infer.h"
#include "src/graph/simplify.h"

namespace stof {
namespace {

// Templates that the default scheme takes, where they cover most.
constexpr std::array<std::string_view, 4> kKnownGood{"embedding", "linear_activation", "linear", "add_norm"};

bool is_known_good(const Blocks& blocks, std::size_t kind, const FusionSegment& segment) {
  if (broken_rule(blocks, kind, segment) != nullptr) return false;
  const SegmentView view = blocks.view(kind, segment, 0);
  if (view.operators.front().work == Work::attention) return true;
  const Template* found = template_for(view);
  if (std::find(kKnownGood.begin(), kKnownGood.end(), found->name) == kKnownGood.end()) return false;
  return found->name != "embedding" || view.operators.back().name == "norm";
}

template <class IsTaken>
Scheme longest_segments(const Blocks& blocks, const IsTaken& is_taken) {
  Scheme scheme;
  for (std::size_t kind = 0; kind < blocks.kinds().size(); ++kind) {
    const std::size_t count = blocks.operators(kind).size();
    std::vector<FusionSegment> segments;
    for (std::size_t begin = 0; begin < count; begin = segments.back().end) {
      std::size_t end = count;
      while (end > begin + 1 && !is_taken(kind, FusionSegment{begin, end})) --end;
      segments.push_back({begin, end});
    }
    scheme.bits.push_back(bits_of(segments));
  }
  return scheme;
}

}  // namespace

Graph fuse(const Blocks& blocks, const Scheme& scheme) {
  check_scheme(blocks, scheme);
  Graph fused = blocks.graph();
  for (std::size_t kind = 0; kind < scheme.bits.size(); ++kind)
    for (const FusionSegment& segment : segments_of(scheme.bits[kind]))
      for (std::size_t block = 0; block < blocks.kinds()[kind].starts.size(); ++block) {
        const SegmentView view = blocks.view(kind, segment, block);
        const auto last = &view.nodes.back() - blocks.graph().nodes.data();
        fused.nodes[static_cast<std::size_t>(last)] = template_for(view)->fuse(view);
      }
  fused = drop_unused(std::move(fused));
  infer(fused);
  return fused;
}

Scheme default_scheme(const Blocks& blocks) {
  return longest_segments(
      blocks, [&](std::size_t kind, const FusionSegment& segment) { return is_known_good(blocks, kind, segment); });
}

Scheme detached_scheme(const Blocks& blocks) {
  return longest_segments(blocks, [&](std::size_t kind, const FusionSegment& segment) {
    return blocks.view(kind, segment, 0).operators.front().work == Work::attention &&
           broken_rule(blocks, kind, segment) == nullptr;
  });
}

Graph fused_by_default(Graph built) {
  const Graph simplified = simplify(std::move(built));
  const Blocks blocks(simplified);
  return fuse(blocks, default_scheme(blocks));
}

}  // namespace stof
