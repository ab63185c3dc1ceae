// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/cache_layer.h"

#include <algorithm>

namespace stof {
namespace {

std::size_t uses(const Graph& graph, ValueId value) {
  std::size_t count = graph.result == value ? 1 : 0;
  for (const Node& node : graph.nodes) count += static_cast<std::size_t>(std::ranges::count(node.inputs, value));
  return count;
}

// The Rotate that makes what the attention reads, and nothing else does; nor does anything but this Rotate read what it
// turns, which therefore lies in the same place.
std::optional<std::size_t> rotation_of(const Graph& graph, const Node& attention) {
  const ValueId qkv = attention.inputs[0];
  const auto& packed = std::get<op::AttendPacked>(attention.op);
  const auto makes = [&](const Node& node) {
    const auto* rotate = std::get_if<op::Rotate>(&node.op);
    return node.output == qkv && rotate != nullptr && rotate->heads == packed.heads &&
           rotate->kv_heads == packed.kv_heads;
  };
  const auto found = std::ranges::find_if(graph.nodes, makes);
  if (uses(graph, qkv) != 1 || found == graph.nodes.end() || uses(graph, found->inputs[0]) != 1) return std::nullopt;
  return static_cast<std::size_t>(found - graph.nodes.begin());
}

}  // namespace

std::byte* CacheLayer::rows(const CachedKeys& cached, DType dtype) const {
  return cached.memory + static_cast<std::size_t>(column * cached.slots * cached.capacity) * size_of(dtype);
}

std::vector<std::optional<CacheLayer>> cache_layers(const Graph& graph) {
  std::vector<std::optional<CacheLayer>> layers(graph.nodes.size());
  std::int64_t column = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const auto* packed = std::get_if<op::AttendPacked>(&node.op);
    if (packed == nullptr) continue;
    const std::int64_t head_dim = packed_head_dim(*packed, graph.value(node.inputs[0]).columns);
    const std::optional<std::size_t> rotation = rotation_of(graph, node);
    const CacheLayer layer{
        .column = column, .width = 2 * packed->kv_heads * head_dim, .attention = i, .rotation = rotation};
    layers[i] = layer;
    if (rotation) layers[*rotation] = layer;
    column += layer.width;
  }
  return layers;
}

}  // namespace stof
