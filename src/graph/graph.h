// SPDX-License-Identifier: Apache-2.0
// A model as operations on values. All values are activations [tokens, columns], where `tokens` is the number of tokens
// in a call: the one symbolic dimension, since items are packed one after the other.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "src/backend/operations.h"
#include "src/model/rotary.h"
#include "stof/mask.h"
#include "stof/tensor.h"

namespace stof {

enum class TokenIndex : std::uint8_t { token, position, segment };  // segment: all 0, one text per item

namespace op {
struct Input {  // whatever lies there before the first operation; not of models: parts of them are timed with it
  std::int64_t columns = 1;
  bool moments = false;
};
// As the checkpoint says it.
struct Lookup {  // weights: table [entries, columns]
  TokenIndex index = TokenIndex::token;
};
struct Add {};      // x, y
struct LayerNorm {  // x; weights: scale, shift
  double epsilon = 1e-12;
};
struct RmsNorm {  // x; weights: scale. By the root of the mean square (Zhang and Sennrich 2019)
  double epsilon = 1e-6;
};
struct MatMul {};                            // x; weights: [out, in], or several stacked
struct AddBias {                             // x; weights: [columns], or several in a row
  Activation activation = Activation::none;  // other than none: as fusion makes it
};
struct Activate {  // x
  Activation activation = Activation::none;
};
struct Gate {  // x [tokens, 2 * columns]: activation(its first half) * its second half
  Activation activation = Activation::none;
};
// q and k of each head are turned by the position of their token inside its text: the halves (a, b) of a head become
// (a cos - b sin, b cos + a sin), element i by position * theta^(-2i / head_dim), unless that is scaled.
struct Rotate {  // qkv [tokens, (heads + 2 kv_heads) * head_dim]
  std::int64_t heads = 1, kv_heads = 1;
  double theta = 1e4;
  RotaryScaling scaling = {};
  std::optional<std::int64_t> pairs = {};  // that turn, the first ones, as a head of so many pairs does; nothing: all
  std::optional<double> norm = {};  // epsilon of an RmsNorm of each head before; weights: its scales of q and of k
};
// What is done to scores before the mask. biased: the node has weights, f32 [heads, 2 * reach + 1], of a relative bias
// (stof/relative_bias.h).
struct Scores {
  std::optional<double> scale = {};  // nothing: 1 / sqrt(head_dim)
  bool biased = false;
  std::optional<double> softcap = {};  // what is scaled becomes softcap * tanh(x / softcap)
};
struct Attend {  // q, k, v
  std::int64_t heads = 1;
  Mask mask = all();
  Scores scores = {};
};
// As fusion makes them (src/fusion/fuse.h).
struct Embed {  // weights: the tables, then scale, shift where it normalises
  std::vector<TokenIndex> indices;
  std::optional<double> epsilon;
};
// A norm may be left to those who read the value: it is then stored as it was before, with the moments of its rows.
// Or, in calls of few rows, the matmul computes the norm of x itself.
struct OwnNorm {
  double epsilon = 1e-6;
  bool shifts = false;  // no: by the root mean square, and without a shift among the weights
};
struct Linear {  // x, and a residual to add or none; weights: matrices, as many biases, scale and shift of the norms
  Activation activation = Activation::none;
  bool bias = true;                   // false: no biases among the weights
  bool gate = false;                  // the product is a gate and what it lets through, see Gate
  std::optional<Rotate> turned = {};  // q and k, whose columns are then stored as paired_column says
  std::optional<double> x_norm = {}, residual_norm = {};  // epsilon of what has to be normalised first
  bool moments = false;                                   // of the output are written, too
  bool few_rows = false;                                  // see LinearSpec
  std::optional<OwnNorm> own_norm = {};
};
struct AddLayerNorm {  // x, residual; weights: scale, shift
  double epsilon = 1e-12;
};
struct RmsNormAdd {  // x, which is normalised, and what is added to that; weights: scale
  double epsilon = 1e-6;
};
struct AttendPacked {  // qkv [tokens, (heads + 2 kv_heads) * head_dim]
  std::int64_t heads = 1, kv_heads = 1;
  Mask mask = all();
  Scores scores = {};
};
}  // namespace op

// Of Rotate and AttendPacked: heads of q, k and v beside each other, and the columns of each.
template <class Packed>
constexpr std::int64_t packed_heads(const Packed& op) {
  return op.heads + 2 * op.kv_heads;
}
template <class Packed>
constexpr std::int64_t packed_head_dim(const Packed& op, std::int64_t columns) {
  return columns / packed_heads(op);
}

using Op = std::variant<op::Input, op::Lookup, op::Add, op::LayerNorm, op::RmsNorm, op::MatMul, op::AddBias,
                        op::Activate, op::Gate, op::Rotate, op::Attend, op::Embed, op::Linear, op::AddLayerNorm,
                        op::RmsNormAdd, op::AttendPacked>;

using ValueId = int;

struct Weight {
  std::string name;
  TensorView tensor;  // borrowed from the model
};

struct Node {
  Op op;
  std::vector<ValueId> inputs;
  std::vector<Weight> weights;
  ValueId output = 0;
};

struct Value {
  std::string name;
  std::int64_t columns = 0;  // set by infer()
  bool moments = false;      // stored behind it; set by infer()
  // In the arena: moments as numbers of 16 bits.
  std::int64_t arena_columns() const { return columns + (moments ? moments_bytes(1, columns) / 2 : 0); }
};

// Nodes stand in an order in which every input is made before it is used.
struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  ValueId result = 0;

  ValueId add_value(std::string name) {
    values.push_back({.name = std::move(name)});
    return static_cast<ValueId>(values.size()) - 1;
  }
  const Value& value(ValueId id) const { return values.at(static_cast<std::size_t>(id)); }
};

std::string_view name_of(const Op& op);

// The first of the norms' weights.
inline std::size_t norms_begin(const op::Linear& linear, std::size_t matrices) {
  return linear.bias ? 2 * matrices : matrices;
}

// Scales and shifts of all norms.
inline std::size_t norm_weights(const op::Linear& linear) {
  const std::size_t own = linear.own_norm ? (linear.own_norm->shifts ? 2U : 1U) : 0U;
  return (linear.x_norm ? 2U : 0U) + (linear.residual_norm ? 2U : 0U) + own;
}

inline std::size_t matrices_of(const op::Linear& linear, const Node& node) {
  const std::size_t of_norms = norm_weights(linear);
  return (node.weights.size() - std::min(node.weights.size(), of_norms)) / (linear.bias ? 2 : 1);
}

}  // namespace stof
