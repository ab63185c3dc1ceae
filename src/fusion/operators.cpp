// SPDX-License-Identifier: Apache-2.0
#include "src/fusion/operators.h"

#include <array>
#include <span>

namespace stof {
namespace {

struct Named {
  std::string_view name;
  Bound bound;
};
constexpr std::array<Named, 5> kAttention{{{"scores", Bound::attention},
                                           {"scale", Bound::attention},
                                           {"mask", Bound::attention},
                                           {"softmax", Bound::attention},
                                           {"values", Bound::attention}}};
constexpr Named kLookup{"lookup", Bound::memory}, kAdd{"add", Bound::memory}, kNorm{"norm", Bound::memory},
    kRmsNorm{"rms_norm", Bound::memory}, kMatMul{"matmul", Bound::compute}, kBias{"bias", Bound::memory},
    kActivate{"activate", Bound::memory}, kGate{"gate", Bound::memory}, kRotate{"rope", Bound::memory},
    kNormRotate{"norm_rope", Bound::memory};

// What models are built of, and nothing that fusion made: an overload that is missing does not compile.
struct Operators {
  using List = std::span<const Named>;
  List operator()(const op::Lookup&) const { return {&kLookup, 1}; }
  List operator()(const op::Add&) const { return {&kAdd, 1}; }
  List operator()(const op::LayerNorm&) const { return {&kNorm, 1}; }
  List operator()(const op::RmsNorm&) const { return {&kRmsNorm, 1}; }
  List operator()(const op::MatMul&) const { return {&kMatMul, 1}; }
  List operator()(const op::AddBias&) const { return {&kBias, 1}; }
  List operator()(const op::Activate&) const { return {&kActivate, 1}; }
  List operator()(const op::Gate&) const { return {&kGate, 1}; }
  List operator()(const op::Rotate& op) const { return {op.norm ? &kNormRotate : &kRotate, 1}; }
  List operator()(const op::Attend&) const { return kAttention; }
  List operator()(const op::AttendPacked&) const { return kAttention; }
  List operator()(const op::Input&) const { return {}; }
  List operator()(const op::Embed&) const { return {}; }
  List operator()(const op::Linear&) const { return {}; }
  List operator()(const op::AddLayerNorm&) const { return {}; }
  List operator()(const op::RmsNormAdd&) const { return {}; }
};

}  // namespace

std::vector<Operator> operators_of(const Graph& graph, const FusionBlock& kind) {
  std::vector<Operator> operators;
  for (std::size_t n = 0; n < kind.size; ++n)
    for (const Named& named : std::visit(Operators{}, graph.nodes[kind.starts.front() + n].op))
      operators.push_back({.node = n, .name = named.name, .bound = named.bound});
  return operators;
}

}  // namespace stof
