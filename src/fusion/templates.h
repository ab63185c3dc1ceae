// SPDX-License-Identifier: Apache-2.0
// What segments are compiled from: for each template the operators that it covers, and the node that it makes of them.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/fusion/operators.h"
#include "src/graph/graph.h"

namespace stof {

// A segment where it stands in the graph.
struct SegmentView {
  std::span<const Operator> operators;
  std::span<const Node> nodes;  // of these operators

  std::string names() const;  // "matmul, bias"
};

struct Template {
  std::string_view name;
  std::string_view covers;  // operators, for people
  bool (*matches)(const SegmentView&);
  Node (*fuse)(const SegmentView&);
};

std::span<const Template> templates();

// The one that covers the operators, or null.
const Template* template_for(const SegmentView& segment);

}  // namespace stof
