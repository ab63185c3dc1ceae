// SPDX-License-Identifier: Apache-2.0
#include "src/graph/infer.h"

#include "src/base/error.h"

namespace stof {
namespace {

// A node with the columns of its inputs, and the sentences for what does not fit.
struct Site {
  const Node& node;
  const std::string& name;
  std::vector<std::int64_t> columns;
  std::vector<bool> moments = {};  // whether inputs have them

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::internal, "graph: {} '{}': {}", name_of(node.op), name,
         fmt::format(format, std::forward<Args>(args)...));
  }
  void expect_counts(std::size_t inputs, std::size_t weights) const {
    if (node.inputs.size() != inputs) refuse("{} inputs; accepted: {}", node.inputs.size(), inputs);
    if (node.weights.size() != weights) refuse("{} weights; accepted: {}", node.weights.size(), weights);
  }
  void expect_columns(std::size_t input, std::int64_t wanted) const {
    if (columns[input] != wanted) refuse("input {} has {} columns; accepted: {}", input, columns[input], wanted);
  }
  void expect_shape(std::size_t weight, const Shape& wanted) const {
    const Weight& found = node.weights[weight];
    if (found.tensor.shape != wanted)
      refuse("weight '{}' has shape {}; accepted: {}", found.name, to_string(found.tensor.shape), to_string(wanted));
  }
  void expect_norm(std::size_t first_weight, std::int64_t wanted) const {
    expect_shape(first_weight, {wanted});
    expect_shape(first_weight + 1, {wanted});
  }
  void expect_moments(std::size_t input) const {
    if (!moments[input]) refuse("input {} has no moments", input);
  }
  void expect_heads(std::int64_t heads, std::int64_t hidden) const {
    if (heads < 1 || hidden % heads != 0) refuse("{} heads for {} columns", heads, hidden);
  }
  // Of q, k and v in one row: the columns of a head.
  template <class Packed>
  std::int64_t expect_packed(const Packed& op, std::int64_t total) const {
    if (op.heads < 1 || op.kv_heads < 1 || op.heads % op.kv_heads != 0)
      refuse("{} heads of {} for keys; accepted: a multiple", op.heads, op.kv_heads);
    if (total % packed_heads(op) != 0)
      refuse("{} columns for {} heads of q, k and v; accepted: a multiple", total, packed_heads(op));
    return packed_head_dim(op, total);
  }
  std::int64_t stacked_rows(std::size_t matrices) const {
    std::int64_t rows = 0;
    for (std::size_t w = 0; w < matrices; ++w) {
      const Shape& shape = node.weights[w].tensor.shape;
      if (shape.size() != 2 || shape[1] != columns[0])
        refuse("weight '{}' has shape {}; accepted: [n, {}]", node.weights[w].name, to_string(shape), columns[0]);
      rows += shape[0];
    }
    return rows;
  }
};

std::int64_t infer(const op::Input& input, const Site& site) {
  site.expect_counts(0, 0);
  return input.columns;
}

std::int64_t infer(const op::Lookup&, const Site& site) {
  site.expect_counts(0, 1);
  if (site.node.weights[0].tensor.rank() != 2)
    site.refuse("the table has {} dimensions; accepted: 2", site.node.weights[0].tensor.rank());
  return site.node.weights[0].tensor.dim(1);
}

std::int64_t infer(const op::Add&, const Site& site) {
  site.expect_counts(2, 0);
  site.expect_columns(1, site.columns[0]);
  return site.columns[0];
}

std::int64_t infer(const op::LayerNorm&, const Site& site) {
  site.expect_counts(1, 2);
  site.expect_norm(0, site.columns[0]);
  return site.columns[0];
}

std::int64_t infer(const op::RmsNorm&, const Site& site) {
  site.expect_counts(1, 1);
  site.expect_shape(0, {site.columns[0]});
  return site.columns[0];
}

std::int64_t infer(const op::MatMul&, const Site& site) {
  site.expect_counts(1, site.node.weights.size());
  return site.stacked_rows(site.node.weights.size());
}

std::int64_t infer(const op::AddBias&, const Site& site) {
  site.expect_counts(1, site.node.weights.size());
  std::int64_t columns = 0;
  for (const Weight& part : site.node.weights) columns += element_count(part.tensor.shape);
  if (columns != site.columns[0]) site.refuse("weights of {} columns; accepted: {}", columns, site.columns[0]);
  return columns;
}

std::int64_t infer(const op::Activate&, const Site& site) {
  site.expect_counts(1, 0);
  return site.columns[0];
}

std::int64_t infer(const op::Gate&, const Site& site) {
  site.expect_counts(1, 0);
  if (site.columns[0] % 2 != 0) site.refuse("input 0 has {} columns; accepted: a multiple of 2", site.columns[0]);
  return site.columns[0] / 2;
}

void expect_pairs(const op::Rotate& rotate, std::int64_t head_dim, const Site& site) {
  if (rotate.pairs && (*rotate.pairs < 1 || *rotate.pairs > head_dim / 2))
    site.refuse("{} pairs that turn in heads of {} columns; accepted: 1 to {}", *rotate.pairs, head_dim, head_dim / 2);
}

std::int64_t infer(const op::Rotate& rotate, const Site& site) {
  site.expect_counts(1, rotate.norm ? 2 : 0);
  const std::int64_t head_dim = site.expect_packed(rotate, site.columns[0]);
  if (head_dim % 2 != 0) site.refuse("heads of {} columns; accepted: a multiple of 2", head_dim);
  expect_pairs(rotate, head_dim, site);
  for (std::size_t scale = 0; rotate.norm && scale < 2; ++scale) site.expect_shape(scale, {head_dim});
  return site.columns[0];
}

// Pairs are stored 16 columns at a time.
void expect_turned(const op::Linear& linear, const Site& site, std::int64_t columns) {
  if (linear.gate || linear.activation != Activation::none || linear.moments || site.node.inputs.size() != 1)
    site.refuse("turned heads with a gate, an activation, moments or a residual; accepted: none of them");
  if (linear.turned->norm) site.refuse("turned heads with norms of their own; accepted: none of them");
  const std::int64_t head_dim = site.expect_packed(*linear.turned, columns);
  if (head_dim % 16 != 0) site.refuse("turned heads of {} columns; accepted: a multiple of 16", head_dim);
  expect_pairs(*linear.turned, head_dim, site);
}

// An odd number of places: as many to either side of distance 0.
void expect_bias(const op::Scores& scores, std::int64_t heads, const Site& site) {
  if (!scores.biased) return;
  const TensorView& bias = site.node.weights[0].tensor;
  const std::int64_t places = bias.rank() == 2 ? bias.dim(1) : 0;
  site.expect_shape(0, {heads, places % 2 == 0 ? places + 1 : places});
}

std::int64_t infer(const op::Attend& attend, const Site& site) {
  site.expect_counts(3, attend.scores.biased ? 1 : 0);
  expect_bias(attend.scores, attend.heads, site);
  site.expect_columns(1, site.columns[0]);
  site.expect_columns(2, site.columns[0]);
  site.expect_heads(attend.heads, site.columns[0]);
  return site.columns[0];
}

std::int64_t infer(const op::Embed& embed, const Site& site) {
  const std::size_t tables = embed.indices.size();
  site.expect_counts(0, tables + (embed.epsilon ? 2 : 0));
  if (tables == 0) site.refuse("no tables");
  const std::int64_t columns = site.node.weights[0].tensor.dim(1);
  for (std::size_t t = 1; t < tables; ++t) site.expect_shape(t, {site.node.weights[t].tensor.dim(0), columns});
  if (embed.epsilon) site.expect_norm(tables, columns);
  return columns;
}

std::int64_t infer(const op::Linear& linear, const Site& site) {
  const std::size_t inputs = linear.residual_norm || site.node.inputs.size() == 2 ? 2 : 1;
  const std::size_t matrices = matrices_of(linear, site.node);
  const std::size_t norm = norms_begin(linear, matrices), of_norms = norm_weights(linear);
  site.expect_counts(inputs, norm + of_norms);
  if (linear.own_norm && (linear.x_norm || linear.residual_norm || linear.turned || !linear.few_rows))
    site.refuse(
        "a norm of its own beside deferred ones, beside turned heads, or in a matmul for any rows; accepted: for few "
        "rows, alone");
  const std::int64_t rows = site.stacked_rows(matrices);
  if (linear.gate && (inputs == 2 || rows % 2 != 0))
    site.refuse("a gate of {} columns and {} inputs; accepted: a multiple of 2, and 1", rows, inputs);
  if (linear.turned) expect_turned(linear, site, rows);
  if (inputs == 2) site.expect_columns(1, rows);
  if (linear.x_norm) site.expect_moments(0);
  if (linear.residual_norm) site.expect_moments(1);
  if (linear.x_norm) site.expect_norm(norm, site.columns[0]);
  if (linear.residual_norm) site.expect_norm(norm + of_norms - 2, rows);
  if (linear.own_norm) site.expect_shape(norm, {site.columns[0]});
  if (linear.own_norm && linear.own_norm->shifts) site.expect_shape(norm + 1, {site.columns[0]});
  for (std::size_t w = 0; linear.bias && w < matrices; ++w)
    site.expect_shape(matrices + w, {site.node.weights[w].tensor.dim(0)});
  return linear.gate ? rows / 2 : rows;
}

std::int64_t infer(const op::AddLayerNorm&, const Site& site) {
  site.expect_counts(2, 2);
  site.expect_columns(1, site.columns[0]);
  site.expect_norm(0, site.columns[0]);
  return site.columns[0];
}

std::int64_t infer(const op::RmsNormAdd&, const Site& site) {
  site.expect_counts(2, 1);
  site.expect_columns(1, site.columns[0]);
  site.expect_shape(0, {site.columns[0]});
  return site.columns[0];
}

std::int64_t infer(const op::AttendPacked& attend, const Site& site) {
  site.expect_counts(1, attend.scores.biased ? 1 : 0);
  expect_bias(attend.scores, attend.heads, site);
  return attend.heads * site.expect_packed(attend, site.columns[0]);
}

}  // namespace

void infer(Graph& graph) {
  std::vector<bool> made(graph.values.size(), false);
  const auto known = [&](ValueId id) { return id >= 0 && static_cast<std::size_t>(id) < graph.values.size(); };
  for (const Node& node : graph.nodes) {
    if (!known(node.output))
      fail(ErrorKind::internal, "graph: {}: its output is no value of the graph", name_of(node.op));
    Value& output = graph.values[static_cast<std::size_t>(node.output)];
    Site site{.node = node, .name = output.name, .columns = {}};
    for (const ValueId input : node.inputs) {
      if (!known(input) || !made[static_cast<std::size_t>(input)])
        site.refuse("input {} is used before it is made", input);
      site.columns.push_back(graph.value(input).columns);
      site.moments.push_back(graph.value(input).moments);
    }
    if (made[static_cast<std::size_t>(node.output)]) site.refuse("its output is made twice");
    made[static_cast<std::size_t>(node.output)] = true;
    output.columns = std::visit([&](const auto& op) { return infer(op, site); }, node.op);
    const auto* linear = std::get_if<op::Linear>(&node.op);
    const auto* input = std::get_if<op::Input>(&node.op);
    output.moments = (linear != nullptr && linear->moments) || (input != nullptr && input->moments);
  }
  if (!known(graph.result) || !made[static_cast<std::size_t>(graph.result)])
    fail(ErrorKind::internal, "graph: the result is not made");
}

}  // namespace stof
