// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/model_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "src/backend/contract.h"
#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/base/memory.h"
#include "src/tensor/convert.h"

namespace stof {
namespace {

// From the first element to the last: with strides that is more than the elements, and the checkpoint's as well.
std::span<const std::byte> memory_of(const TensorView& view) {
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < view.rank(); ++i) {
    if (view.shape[i] == 0) return {};
    elements += (view.shape[i] - 1) * view.strides[i];
  }
  return {static_cast<const std::byte*>(view.data), static_cast<std::size_t>(elements) * size_of(view.dtype)};
}

// NaN has a sign that says nothing.
std::string text_of(float value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }

const float* first_not_finite(std::span<const float> values) {
  const auto found = std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  return found == values.end() ? nullptr : &*found;
}

// Of the weights of some nodes, each once.
template <class Counts>
std::int64_t bytes_of(const Graph& graph, DType dtype, const Counts& counts) {
  std::map<const void*, std::int64_t> values;
  for (const Node& node : graph.nodes) {
    if (!counts(node)) continue;
    for (const auto& weight : node.weights) {
      const Shape& shape = weight.tensor.shape;
      values[weight.tensor.data] = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies());
    }
  }
  std::int64_t sum = 0;
  for (const auto& [data, count] : values) sum += count;
  return sum * static_cast<std::int64_t>(size_of(dtype));
}

}  // namespace

std::int64_t weight_bytes(const Graph& graph, DType dtype) {
  return bytes_of(graph, dtype, [](const Node&) { return true; });
}

void check_weights_fit(const Graph& graph, DType dtype, const Device& device) {
  const MemoryOperations* const memory = device.backend->memory;
  if (memory == nullptr) {
    const auto is_product = [](const Node& node) { return std::holds_alternative<op::MatMul>(node.op); };
    check_memory(fmt::format("the matrices of this model in {}", name_of(dtype)),
                 static_cast<double>(bytes_of(graph, dtype, is_product)));
    return;
  }
  if (memory->left == nullptr) return;
  const std::int64_t bytes = weight_bytes(graph, dtype), left = memory->left(device);
  if (bytes > left)
    fail(ErrorKind::device,
         "out of memory on {}: the weights need {} bytes in {}; accepted: at most {}, which are left{}",
         device.caps.name, bytes, name_of(dtype), left, dtype == DType::f32 ? ": 16-bit dtypes need half of it" : "");
}

std::string weights_fingerprint(const Graph& graph) {
  std::string all;
  for (const Node& node : graph.nodes)
    for (const auto& [name, tensor] : node.weights)
      all += fmt::format("{} {} {} {} {}\n", name, name_of(tensor.dtype), to_string(tensor.shape),
                         to_string(tensor.strides), fingerprint_of(memory_of(tensor)).hex());
  return fingerprint_of(all).hex();
}

std::string why_not_finite(std::span<const float> values, const Graph& graph) {
  const float* const value = first_not_finite(values);
  if (value == nullptr) return {};
  for (const Node& node : graph.nodes)
    for (const auto& [name, tensor] : node.weights) {
      const Tensor exact = converted(tensor, DType::f32);
      const float* const held = first_not_finite({exact.as<float>(), static_cast<std::size_t>(exact.size())});
      if (held != nullptr) return fmt::format("{}, as {} holds {}", text_of(*value), name, text_of(*held));
    }
  return text_of(*value);
}

}  // namespace stof
