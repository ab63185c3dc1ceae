// SPDX-License-Identifier: Apache-2.0
// The dense layers behind the pooling, made ready for a device: one vector a text, in fp32 whatever the model's dtype.
#pragma once
#include "src/model/dense_layer.h"
#include "src/runtime/program.h"

namespace stof {

class DenseHead {
 public:
  // Throws unsupported where the device does not multiply fp32.
  DenseHead(const std::vector<DenseLayer>& layers, const Device& device);

  std::int64_t inputs() const { return inputs_; }
  std::int64_t columns() const { return program_.result_columns(); }
  // Of the device's memory, 64-byte aligned, for so many texts.
  std::int64_t arena_bytes(std::int64_t texts) const { return program_.arena_bytes(texts); }
  // Where in the arena the pooled vectors lie, [texts, inputs()], for run().
  float* pooled(std::byte* arena, std::int64_t texts) const;
  // Returns [texts, columns()] inside the arena.
  const float* run(std::byte* arena, std::int64_t texts, const WorkQueue& queue) const;
  // The same on the host, of a device that does its work at once.
  Tensor run(const Tensor& pooled) const;

 private:
  DenseHead(std::int64_t inputs, const Graph& graph, const Device& device);

  std::int64_t inputs_;
  ValueId input_;
  Program program_;
};

}  // namespace stof
