// SPDX-License-Identifier: Apache-2.0
// What makes a segment legal: one table. Whoever asks gets the words of the first rule that is broken.
#pragma once
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/fusion/scheme.h"
#include "src/fusion/templates.h"
#include "src/graph/rewrite.h"

namespace stof {

// A graph, cut into blocks, with what rules ask about it and the device. Borrows both.
class Blocks {
 public:
  explicit Blocks(const Graph& graph, const FusionTarget& target = {});

  const Graph& graph() const { return *graph_; }
  const FusionTarget& target() const { return target_; }
  bool applies_norms() const { return applies_norms_; }
  const std::vector<FusionBlock>& kinds() const { return kinds_; }
  const std::vector<Operator>& operators(std::size_t kind) const { return operators_[kind]; }
  SchemeShape scheme_shape() const;
  std::size_t uses(ValueId value) const { return uses_[static_cast<std::size_t>(value)]; }  // the result is one
  const Template* template_for(const SegmentView& segment) const;                           // or null
  // Of a segment that breaks no rule; null: it breaks one.
  const Template* legal_template(std::size_t kind, const FusionSegment& segment) const;
  // Of one of the blocks of a kind.
  SegmentView view(std::size_t kind, const FusionSegment& segment, std::size_t block) const;

 private:
  const Graph* graph_;
  FusionTarget target_;
  bool applies_norms_;
  std::vector<FusionBlock> kinds_;
  std::vector<std::vector<Operator>> operators_;
  std::vector<std::size_t> uses_;
  // Of each kind by where segments begin and how long they are: searches ask a thousand times.
  std::vector<std::vector<std::array<const Template*, kMostOperators>>> legal_;
};

struct Rule {
  std::string_view name;
  std::string_view words;
  bool (*holds)(const Blocks&, const SegmentView&);
};

std::span<const Rule> rules();
// As a person is told; with the templates there are, where none covers the segment.
std::string words_of(const Rule& rule, const Blocks& blocks);

// The rule that the segment breaks in some block of its kind, or null.
const Rule* broken_rule(const Blocks& blocks, std::size_t kind, const FusionSegment& segment);

// Throws invalid_argument with the scheme, the operators and the words of the rule.
void check_scheme(const Blocks& blocks, const Scheme& scheme);

}  // namespace stof
