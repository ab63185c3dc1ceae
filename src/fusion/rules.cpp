// SPDX-License-Identifier: Apache-2.0
#include "src/fusion/rules.h"

#include <algorithm>
#include <array>

#include "src/base/error.h"

namespace stof {
namespace {

std::ptrdiff_t count(const SegmentView& segment, Bound bound) {
  return std::count_if(segment.operators.begin(), segment.operators.end(),
                       [&](const Operator& op) { return op.bound == bound; });
}

bool attention_is_whole(const Blocks&, const SegmentView& segment) {
  constexpr std::ptrdiff_t kOperators = 5;
  const std::ptrdiff_t attention = count(segment, Bound::attention);
  return attention == 0 || (attention == kOperators && std::ssize(segment.operators) == kOperators);
}

bool has_few_matmuls(const Blocks&, const SegmentView& segment) { return count(segment, Bound::compute) <= 2; }

// What a segment does not write is not there for others. A matmul with residual and norm writes the sum.
bool has_one_result(const Blocks& blocks, const SegmentView& segment) {
  const Template* known = blocks.template_for(segment);
  const bool writes_sum = known != nullptr && known->needs_moments;
  const auto inner = segment.nodes.first(segment.nodes.size() - (writes_sum ? 2 : 1));
  return std::all_of(inner.begin(), inner.end(), [&](const Node& made) {
    std::size_t inside = 0;
    for (const Node& user : segment.nodes)
      inside += static_cast<std::size_t>(std::count(user.inputs.begin(), user.inputs.end(), made.output));
    return inside == blocks.uses(made.output);
  });
}

// Columns of q and k are stored in another order then, which scores do not see.
bool turns_for_attention(const Blocks& blocks, const SegmentView& segment) {
  if (segment.nodes.size() == 1 || segment.operators.back().name != "rope") return true;
  const ValueId turned = segment.nodes.back().output;
  const auto& nodes = blocks.graph().nodes;
  return turned != blocks.graph().result && std::all_of(nodes.begin(), nodes.end(), [&](const Node& reader) {
           const bool reads = std::find(reader.inputs.begin(), reader.inputs.end(), turned) != reader.inputs.end();
           return !reads || std::holds_alternative<op::AttendPacked>(reader.op);
         });
}

bool has_a_template(const Blocks& blocks, const SegmentView& segment) {
  return blocks.template_for(segment) != nullptr;
}

constexpr std::array<Rule, 5> kRules{{
    {"attention", "attention is a segment of its own: scores, scale, mask, softmax, values", attention_is_whole},
    {"matmuls", "a segment has at most 2 matmuls", has_few_matmuls},
    {"result", "a segment has one result, and only that is used outside of it", has_one_result},
    {"rope", "only attention reads what a matmul has turned", turns_for_attention},
    {"template", "no template covers it", has_a_template},
}};

}  // namespace

Blocks::Blocks(const Graph& graph, const FusionTarget& target)
    : graph_(&graph),
      target_(target),
      applies_norms_(target.applies_norms()),
      kinds_(find_blocks(graph)),
      uses_(graph.values.size(), 0) {
  for (const FusionBlock& kind : kinds_) operators_.push_back(operators_of(graph, kind));
  for (const Node& node : graph.nodes)
    for (const ValueId input : node.inputs) ++uses_[static_cast<std::size_t>(input)];
  ++uses_[static_cast<std::size_t>(graph.result)];
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    const std::size_t count = operators_[kind].size();
    legal_.emplace_back(count);
    for (std::size_t begin = 0; begin < count; ++begin)
      for (std::size_t end = begin + 1; end <= std::min(count, begin + kMostOperators); ++end)
        if (const FusionSegment segment{begin, end}; broken_rule(*this, kind, segment) == nullptr)
          legal_[kind][begin][segment.size() - 1] = template_for(view(kind, segment, 0));
  }
}

const Template* Blocks::legal_template(std::size_t kind, const FusionSegment& segment) const {
  return segment.size() > kMostOperators ? nullptr : legal_[kind][segment.begin][segment.size() - 1];
}

const Template* Blocks::template_for(const SegmentView& segment) const {
  const Template* found = stof::template_for(segment, applies_norms_);
  const bool missing = found != nullptr && found->asks_device && !target_.takes(found->fuse(segment));
  return missing ? nullptr : found;
}

SchemeShape Blocks::scheme_shape() const {
  SchemeShape shape{.operators = {}, .layer = layer_kind(kinds_)};
  for (const auto& operators : operators_) shape.operators.push_back(operators.size());
  return shape;
}

SegmentView Blocks::view(std::size_t kind, const FusionSegment& segment, std::size_t block) const {
  const std::span<const Operator> operators = std::span(operators_[kind]).subspan(segment.begin, segment.size());
  const std::size_t first = kinds_[kind].starts[block] + operators.front().node;
  const std::size_t nodes = operators.back().node - operators.front().node + 1;
  return {.operators = operators, .nodes = std::span(graph_->nodes).subspan(first, nodes)};
}

std::span<const Rule> rules() { return kRules; }

const Rule* broken_rule(const Blocks& blocks, std::size_t kind, const FusionSegment& segment) {
  for (const Rule& rule : kRules)
    for (std::size_t block = 0; block < blocks.kinds()[kind].starts.size(); ++block)
      if (!rule.holds(blocks, blocks.view(kind, segment, block))) return &rule;
  return nullptr;
}

std::string words_of(const Rule& rule, const Blocks& blocks) {
  std::string words(rule.words), covered;
  if (rule.holds != has_a_template) return words;
  for (const Template& known : templates())
    if ((!known.needs_moments || blocks.applies_norms()) && (!known.asks_device || blocks.target().device != nullptr))
      covered += fmt::format("; {}", known.covers);
  return words + "; templates: " + covered.substr(2);
}

void check_scheme(const Blocks& blocks, const Scheme& scheme) {
  STOF_CHECK(scheme.bits.size() == blocks.kinds().size());
  for (std::size_t kind = 0; kind < scheme.bits.size(); ++kind)
    for (const FusionSegment& segment : segments_of(scheme.bits[kind]))
      if (blocks.legal_template(kind, segment) == nullptr)
        fail(ErrorKind::invalid_argument, "scheme {}: operators {} to {} ({}): {}", scheme.bits[kind], segment.begin,
             segment.end - 1, blocks.view(kind, segment, 0).names(),
             words_of(*broken_rule(blocks, kind, segment), blocks));
}

}  // namespace stof
