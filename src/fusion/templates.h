// SPDX-License-Identifier: Apache-2.0
// What segments are compiled from: for each template the operators that it covers, and the node that it makes of them.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/fusion/operators.h"
#include "src/graph/graph.h"
#include "stof/device.h"

namespace stof {

// A segment where it stands in the graph.
struct SegmentView {
  std::span<const Operator> operators;
  std::span<const Node> nodes;  // of these operators

  std::string names() const;  // "matmul, bias"
};

struct Template {
  std::string_view name;
  std::string_view covers;                        // operators, for people too
  Node (*fuse)(const SegmentView&);               // stands where the operator stood whose output it has
  bool (*matches)(const SegmentView&) = nullptr;  // null: the operators are what `covers` says
  bool needs_moments = false;  // of a matmul that writes those of its rows, for a norm that others apply
  bool asks_device = false;    // for a matmul that ends so, which not every one has
  bool covers_all(const SegmentView& segment) const;
};

std::span<const Template> templates();
constexpr std::size_t kMostOperators = 8;  // that one covers

// What a device can do with a segment.
struct FusionTarget {
  const Device* device = nullptr;  // null: nothing but what every device does
  DType dtype = DType::f32;
  bool few_rows = false;       // of calls of at most MatmulOperations::few_rows rows
  bool keeps_keys = false;     // for what others compute: no matmul turns heads, whose columns lie otherwise then
  bool applies_norms() const;  // of a matmul's operands, by moments
  bool takes(const Node& linear) const;  // as one matmul
  Node adapted(Node linear) const;       // as it is run: for few rows, where only then it can be
};

// The one that covers the operators, or null.
const Template* template_for(const SegmentView& segment, bool applies_norms);

}  // namespace stof
