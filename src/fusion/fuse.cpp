// SPDX-License-Identifier: Apache-2.0
#include "src/fusion/fuse.h"

#include <algorithm>
#include <array>

#include "src/backend/contract.h"
#include "src/fusion/defer_norms.h"
#include "src/fusion/few_rows.h"
#include "src/graph/infer.h"
#include "src/graph/simplify.h"

namespace stof {
namespace {

// The norms at the end of segments whose matmul can write moments for them.
std::vector<ValueId> deferrable_norms(const Blocks& blocks, const Scheme& scheme) {
  std::vector<ValueId> norms;
  for (std::size_t kind = 0; kind < scheme.bits.size(); ++kind)
    for (const FusionSegment& segment : segments_of(scheme.bits[kind])) {
      if (!blocks.legal_template(kind, segment)->needs_moments) continue;
      for (std::size_t block = 0; block < blocks.kinds()[kind].starts.size(); ++block)
        norms.push_back(blocks.view(kind, segment, block).nodes.back().output);
    }
  return norms;
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
        Node node = blocks.legal_template(kind, segment)->fuse(view);
        const auto place = std::find_if(view.nodes.begin(), view.nodes.end(),
                                        [&](const Node& covered) { return covered.output == node.output; });
        fused.nodes[static_cast<std::size_t>(&*place - blocks.graph().nodes.data())] = std::move(node);
      }
  drop_unused_nodes(fused);
  if (blocks.applies_norms()) fused = defer_norms(std::move(fused), deferrable_norms(blocks, scheme), blocks.target());
  if (blocks.target().few_rows) fused = norms_into_matmuls(std::move(fused), blocks.target());
  fused = drop_unused(std::move(fused));
  infer(fused);
  return fused;
}

Scheme scheme_of_templates(const Blocks& blocks, std::span<const std::string_view> names) {
  return longest_segments(blocks, [&](std::size_t kind, const FusionSegment& segment) {
    const Template* const known = blocks.legal_template(kind, segment);
    if (known == nullptr) return false;
    const bool is_attention = blocks.operators(kind)[segment.begin].bound == Bound::attention;
    return is_attention || std::find(names.begin(), names.end(), known->name) != names.end();
  });
}

Scheme default_scheme(const Blocks& blocks) {
  constexpr std::array<std::string_view, 8> kNames{"embedding_norm", "linear_activation", "product_activation",
                                                   "linear",         "add_norm",          "norm_add",
                                                   "product_gate",   "linear_gate"};
  // Where matmuls have settings, one with a gate may have to be compiled first.
  const Device* device = blocks.target().device;
  const bool at_once = device == nullptr || device->backend->matmul.settings == nullptr;
  return scheme_of_templates(blocks, std::span(kNames).first(at_once ? kNames.size() : kNames.size() - 2));
}

Scheme few_rows_scheme(const Blocks& blocks) {
  constexpr std::array<std::string_view, 10> kNames{
      "embedding_norm",   "linear_activation", "product_activation", "linear_residual", "linear",
      "product_residual", "product_gate",      "linear_gate",        "add_norm",        "norm_add"};
  return scheme_of_templates(blocks, kNames);
}

Scheme detached_scheme(const Blocks& blocks) { return scheme_of_templates(blocks, {}); }

Graph fused_by_default(Graph built) {
  const Graph simplified = simplify(std::move(built));
  const Blocks blocks(simplified);
  return fuse(blocks, default_scheme(blocks));
}

}  // namespace stof
