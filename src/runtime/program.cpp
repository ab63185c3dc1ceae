// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/program.h"

#include <array>
#include <map>
#include <tuple>

#include "src/backend/contract.h"
#include "src/base/error.h"
#include "src/tensor/convert.h"

namespace stof {

// One overload of step() per op: it packs what can be packed and returns what runs in each call.
class ProgramBuilder {
 public:
  ProgramBuilder(const Graph& graph, Program& program)
      : graph_(graph),
        program_(program),
        options_(program.options_),
        arena_(program.arena_),
        backend_(*options_.device.backend) {}

  void build() {
    for (const Node& node : graph_.nodes)
      program_.steps_.push_back(std::visit([&](const auto& op) { return step(op, node); }, node.op));
  }

 private:
  using Step = Program::Step;

  // A value's place in the arena of a call.
  struct Slot {
    std::int64_t offset = 0;  // in columns
    std::size_t element = 4;
    void* at(const Frame& frame) const {
      return frame.arena + static_cast<std::size_t>(offset * frame.row_capacity) * element;
    }
  };
  Slot slot(ValueId value) const { return {arena_.offset[static_cast<std::size_t>(value)], size_of(options_.dtype)}; }
  std::int64_t columns(ValueId value) const { return graph_.value(value).columns; }

  struct Norm {
    Tensor scale, shift;
    float epsilon;
    NormWeights weights() const { return {.scale = scale.as<float>(), .shift = shift.as<float>(), .epsilon = epsilon}; }
  };
  std::shared_ptr<const Norm> norm(const Node& node, std::size_t first, double epsilon) const {
    return std::make_shared<const Norm>(Norm{converted(node.weights[first].tensor, DType::f32),
                                             converted(node.weights[first + 1].tensor, DType::f32),
                                             static_cast<float>(epsilon)});
  }

  static std::span<const std::int32_t> indices(const RowBatch& batch, TokenIndex index) {
    switch (index) {
      case TokenIndex::token: return batch.tokens;
      case TokenIndex::position: return batch.positions;
      case TokenIndex::segment: return batch.segments;
    }
    return {};
  }
  Step lookup(const std::vector<TokenIndex>& which, const Node& node, const std::shared_ptr<const Norm>& norm) const {
    std::vector<TensorView> tables;
    for (std::size_t t = 0; t < which.size(); ++t) tables.push_back(node.weights[t].tensor);
    return [this_rows = backend_.rows, which, tables, norm, out = slot(node.output), columns = columns(node.output),
            dtype = options_.dtype](const Frame& frame) {
      std::vector<LookupTable> looked_up;
      for (std::size_t t = 0; t < which.size(); ++t)
        looked_up.push_back({.table = tables[t], .indices = indices(frame.batch, which[t])});
      const NormWeights weights = norm ? norm->weights() : NormWeights{};
      this_rows.lookup({frame.batch.rows, columns, dtype}, looked_up, norm ? &weights : nullptr, out.at(frame));
    };
  }
  Step step(const op::Lookup& op, const Node& node) const { return lookup({op.index}, node, nullptr); }
  Step step(const op::Embed& op, const Node& node) const {
    return lookup(op.indices, node, norm(node, op.indices.size(), op.epsilon));
  }

  Step add(const Node& node, const std::shared_ptr<const Tensor>& bias, Activation activation) const {
    const bool two = node.inputs.size() == 2;
    return [operations = backend_.rows, x = slot(node.inputs[0]), y = slot(node.inputs.back()), two, bias, activation,
            out = slot(node.output), columns = columns(node.output), dtype = options_.dtype](const Frame& frame) {
      const void* second = bias ? bias->data() : two ? y.at(frame) : nullptr;
      operations.add({frame.batch.rows, columns, dtype}, x.at(frame), second, bias != nullptr, activation,
                     out.at(frame));
    };
  }
  Step step(const op::Add&, const Node& node) const { return add(node, nullptr, Activation::none); }
  Step step(const op::AddBias&, const Node& node) const {
    return add(node, std::make_shared<const Tensor>(converted(node.weights[0].tensor, DType::f32)), Activation::none);
  }
  Step step(const op::Activate& op, const Node& node) const { return add(node, nullptr, op.activation); }

  Step layer_norm(const Node& node, double epsilon) const {
    const bool two = node.inputs.size() == 2;
    return [operations = backend_.rows, x = slot(node.inputs[0]), y = slot(node.inputs.back()), two,
            norm = norm(node, 0, epsilon), out = slot(node.output), columns = columns(node.output),
            dtype = options_.dtype](const Frame& frame) {
      operations.layer_norm({frame.batch.rows, columns, dtype}, x.at(frame), two ? y.at(frame) : nullptr,
                            norm->weights(), out.at(frame));
    };
  }
  Step step(const op::LayerNorm& op, const Node& node) const { return layer_norm(node, op.epsilon); }
  Step step(const op::AddLayerNorm& op, const Node& node) const { return layer_norm(node, op.epsilon); }

  Step linear(const Node& node, std::size_t matrices, Activation activation) const {
    LinearSpec spec{.weight = {}, .bias = {}, .activation = activation, .dtype = options_.dtype};
    for (std::size_t w = 0; w < node.weights.size(); ++w)
      (w < matrices ? spec.weight : spec.bias).push_back(node.weights[w].tensor);
    return [run = backend_.matmul.run, packed = backend_.matmul.pack(spec), x = slot(node.inputs[0]),
            out = slot(node.output)](const Frame& frame) {
      run(packed, {.x = x.at(frame), .out = out.at(frame), .residual = nullptr, .rows = frame.batch.rows});
    };
  }
  Step step(const op::MatMul&, const Node& node) const { return linear(node, node.weights.size(), Activation::none); }
  Step step(const op::Linear& op, const Node& node) const {
    return linear(node, node.weights.size() / 2, op.activation);
  }

  // Layers with one mask and shape share a plan.
  std::shared_ptr<const Attention> attention(const Mask& mask, std::int64_t heads, std::int64_t hidden) {
    std::shared_ptr<const Attention>& plan = attention_[{mask.fingerprint(), heads, hidden}];
    if (!plan) {
      plan = std::make_shared<const Attention>(mask,
                                               AttentionShape{.batch = 1,
                                                              .heads = heads,
                                                              .kv_heads = heads,
                                                              .queries = options_.longest,
                                                              .keys = options_.longest,
                                                              .head_dim = hidden / heads,
                                                              .dtype = options_.dtype},
                                               options_.device);
      program_.attention_.push_back(plan);
    }
    return plan;
  }

  // A [tokens, heads * d] slice of rows that are `stride` elements apart, as attention wants it.
  static TensorView heads_of(void* data, DType dtype, const RowBatch& batch, std::int64_t heads, std::int64_t head_dim,
                             std::int64_t stride) {
    if (batch.padded)
      return {.data = data,
              .dtype = dtype,
              .shape = {batch.texts, heads, batch.longest, head_dim},
              .strides = {batch.longest * stride, head_dim, stride, 1}};
    return {.data = data, .dtype = dtype, .shape = {batch.rows, heads, head_dim}, .strides = {stride, head_dim, 1}};
  }

  struct AttendInputs {
    std::array<Slot, 3> qkv;
    std::array<std::int64_t, 3> first_column;
    std::int64_t stride;
  };
  Step attend(const AttendInputs& inputs, const Mask& mask, std::int64_t heads, const Node& node) {
    const std::int64_t hidden = columns(node.output);
    return [inputs, heads, hidden, out = slot(node.output), dtype = options_.dtype,
            plan = attention(mask, heads, hidden)](const Frame& frame) {
      const RowBatch& batch = frame.batch;
      const auto view = [&](const Slot& slot, std::int64_t column, std::int64_t stride) {
        auto* data = static_cast<std::byte*>(slot.at(frame)) + static_cast<std::size_t>(column) * size_of(dtype);
        return heads_of(data, dtype, batch, heads, hidden / heads, stride);
      };
      AttentionArguments arguments{.q = view(inputs.qkv[0], inputs.first_column[0], inputs.stride),
                                   .k = view(inputs.qkv[1], inputs.first_column[1], inputs.stride),
                                   .v = view(inputs.qkv[2], inputs.first_column[2], inputs.stride),
                                   .out = view(out, 0, hidden)};
      if (batch.padded) arguments.q_lengths = arguments.kv_lengths = batch.lengths;
      else arguments.cu_q = arguments.cu_kv = batch.offsets;
      plan->run(arguments);
    };
  }
  Step step(const op::Attend& op, const Node& node) {
    const AttendInputs inputs{
        {slot(node.inputs[0]), slot(node.inputs[1]), slot(node.inputs[2])}, {0, 0, 0}, columns(node.output)};
    return attend(inputs, op.mask, op.heads, node);
  }
  Step step(const op::AttendPacked& op, const Node& node) {
    const Slot qkv = slot(node.inputs[0]);
    const std::int64_t hidden = columns(node.output);
    return attend({{qkv, qkv, qkv}, {0, hidden, 2 * hidden}, 3 * hidden}, op.mask, op.heads, node);
  }

  const Graph& graph_;
  Program& program_;
  const ProgramOptions& options_;
  const ArenaPlan& arena_;
  const Backend& backend_;
  std::map<std::tuple<std::string, std::int64_t, std::int64_t>, std::shared_ptr<const Attention>> attention_;
};

Program::Program(const Graph& graph, const ProgramOptions& options)
    : options_(options),
      arena_(plan_arena(graph)),
      result_(graph.result),
      result_columns_(graph.value(graph.result).columns) {
  ProgramBuilder(graph, *this).build();
}

std::int64_t Program::arena_bytes(std::int64_t rows) const {
  return arena_.elements(row_capacity(rows)) * static_cast<std::int64_t>(size_of(options_.dtype));
}

std::int64_t Program::plans_made() const {
  std::int64_t plans = 0;
  for (const auto& attention : attention_) plans += attention->plans_made();
  return plans;
}

const void* Program::run(const RowBatch& batch, std::byte* arena) const {
  const Frame frame{.batch = batch, .arena = arena, .row_capacity = row_capacity(batch.rows)};
  for (const Step& step : steps_) step(frame);
  return arena + static_cast<std::size_t>(arena_.offset[static_cast<std::size_t>(result_)] * frame.row_capacity) *
                     size_of(options_.dtype);
}

}  // namespace stof
