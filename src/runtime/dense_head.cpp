// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/dense_head.h"

#include <algorithm>

#include "src/fusion/fuse.h"
#include "src/fusion/rules.h"
#include "src/fusion/templates.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"

namespace stof {
namespace {

Graph fused(const std::vector<DenseLayer>& layers, const Device& device) {
  const Graph graph = simplify(build_dense(layers));
  const Blocks blocks(graph, {.device = &device, .dtype = DType::f32});
  return fuse(blocks, default_scheme(blocks));
}

ValueId input_of(const Graph& graph) {
  const auto is_input = [](const Node& node) { return std::holds_alternative<op::Input>(node.op); };
  return std::ranges::find_if(graph.nodes, is_input)->output;
}

}  // namespace

DenseHead::DenseHead(const std::vector<DenseLayer>& layers, const Device& device)
    : DenseHead(layers.front().inputs(), fused(layers, device), device) {}

DenseHead::DenseHead(std::int64_t inputs, const Graph& graph, const Device& device)
    : inputs_(inputs),
      input_(input_of(graph)),
      program_(graph, {.device = device, .dtype = DType::f32, .longest = 1}) {}

float* DenseHead::pooled(std::byte* arena, std::int64_t texts) const {
  return reinterpret_cast<float*>(arena + program_.place_of(input_, row_capacity(texts)));
}

const float* DenseHead::run(std::byte* arena, std::int64_t texts, const WorkQueue& queue) const {
  return static_cast<const float*>(
      program_.run({.rows = texts, .row_capacity = row_capacity(texts), .arena = arena, .queue = queue}));
}

Tensor DenseHead::run(const Tensor& pooled) const {
  const std::int64_t texts = pooled.shape()[0];
  const Tensor arena(DType::boolean, {arena_bytes(texts)});
  auto* const memory = static_cast<std::byte*>(arena.data());
  std::copy_n(pooled.as<float>(), pooled.size(), this->pooled(memory, texts));
  Tensor result(DType::f32, {texts, columns()});
  std::copy_n(run(memory, texts, {}), result.size(), result.as<float>());
  return result;
}

}  // namespace stof
