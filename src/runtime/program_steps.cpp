// SPDX-License-Identifier: Apache-2.0
// What each operation of a graph becomes: weights brought and packed once, and a step that runs in each call.
#include <algorithm>

#include "src/backend/contract.h"
#include "src/base/error.h"
#include "src/fusion/work.h"
#include "src/mask/bind.h"
#include "src/runtime/attention_step.h"
#include "src/runtime/cache_layer.h"
#include "src/runtime/cache_use.h"
#include "src/runtime/linear_text.h"
#include "src/runtime/paired_products.h"
#include "src/runtime/program.h"
#include "src/runtime/rotary_angles.h"
#include "src/tensor/convert.h"

namespace stof {

// One overload of step() per op: it packs what can be packed and returns what runs in each call.
class ProgramBuilder {
 public:
  ProgramBuilder(const Graph& graph, Program& program)
      : graph_(graph),
        program_(program),
        options_(program.options_),
        cache_uses_(cache_uses(graph)),
        cache_layers_(cache_layers(graph)),
        backend_(*options_.device.backend),
        paired_(backend_.matmul.pairs_gates ? paired_products(graph) : std::vector<bool>(graph.values.size())),
        on_host_(backend_.memory == nullptr) {}

  void build() {
    for (const Node& node : graph_.nodes) {
      in_tail_ = program_.steps_.size() >= program_.split_.cut;
      program_.steps_.push_back(std::visit([&](const auto& op) { return step(op, node); }, node.op));
    }
  }

 private:
  using Step = Program::Step;

  // As the node that is being built sees it.
  Slot slot(ValueId value) const {
    const auto v = static_cast<std::size_t>(value);
    const SplitArena& split = program_.split_;
    return {.whole = program_.arena_.offset[v],
            .split = (in_tail_ ? split.tail : split.body).offset[v],
            .in_tail = in_tail_,
            .element = size_of(options_.dtype)};
  }
  std::int64_t columns(ValueId value) const { return graph_.value(value).columns; }
  // Of the node that is being built.
  const std::optional<CacheLayer>& layer() const { return cache_layers_[program_.steps_.size()]; }

  // A weight in this dtype where the device reads it.
  std::shared_ptr<const void> placed(const TensorView& weight, DType dtype) const {
    const std::string key = fmt::format("{} {} {}", weight.data, name_of(dtype), to_string(weight.shape));
    return options_.weights->find_or_make(key, [&] { return copied(weight, dtype); });
  }
  std::shared_ptr<const void> copied(const TensorView& weight, DType dtype) const {
    const bool as_it_lies = !on_host_ && weight.dtype == dtype && weight.contiguous();
    return as_it_lies ? backend_.memory->copy_in(options_.device, stored_bytes(weight), 0)
                      : brought(converted(weight, dtype));
  }
  std::shared_ptr<const void> brought(Tensor tensor) const {
    auto values = std::make_shared<const Tensor>(std::move(tensor));
    if (on_host_) return {values, values->data()};
    return backend_.memory->copy_in(options_.device, {values->as<std::byte>(), values->bytes()}, 0);
  }

  static Tensor in_a_row(const std::vector<Weight>& parts) {
    std::int64_t columns = 0;
    for (const Weight& part : parts) columns += element_count(part.tensor.shape);
    Tensor all(DType::f32, {columns});
    float* next = all.as<float>();
    for (const Weight& part : parts) {
      const Tensor values = converted(part.tensor, DType::f32);
      next = std::copy_n(values.as<float>(), values.size(), next);
    }
    return all;
  }

  struct Norm {
    std::shared_ptr<const void> scale, shift;
    float epsilon;
    NormWeights weights() const {
      return {.scale = static_cast<const float*>(scale.get()),
              .shift = static_cast<const float*>(shift.get()),
              .epsilon = epsilon};
    }
  };
  // Scale and shift, or a scale alone, are the last weights.
  std::shared_ptr<const Norm> norm(const Node& node, std::size_t first, double epsilon) const {
    const bool shifts = first + 1 < node.weights.size();
    return std::make_shared<const Norm>(Norm{placed(node.weights[first].tensor, DType::f32),
                                             shifts ? placed(node.weights[first + 1].tensor, DType::f32) : nullptr,
                                             static_cast<float>(epsilon)});
  }

  // The host reads tables where the checkpoint is mapped; a GPU gets them in the program's dtype.
  struct Table {
    TensorView view;
    std::shared_ptr<const void> memory;
  };
  Table table(const TensorView& weight) const {
    if (on_host_) return {weight, nullptr};
    std::shared_ptr<const void> memory = as_multiplied(weight);
    if (!memory) memory = placed(weight, options_.dtype);
    return {view_of(const_cast<void*>(memory.get()), options_.dtype, weight.shape), memory};
  }
  // The table where a matmul of this program reads the same values as a matrix: tied embeddings are there once.
  std::shared_ptr<const void> as_multiplied(const TensorView& table) const {
    if (backend_.matmul.weight == nullptr) return nullptr;
    for (const Node& node : graph_.nodes) {
      if (!std::holds_alternative<op::MatMul>(node.op) && !std::holds_alternative<op::Linear>(node.op)) continue;
      const LinearSpec spec = linear_spec(node, options_.dtype, &options_.device);
      const TensorView& first = spec.weight.front();
      const bool is_table = spec.weight.size() == 1 && first.data == table.data && first.shape == table.shape &&
                            first.strides == table.strides;
      if (!is_table || spec.gate || spec.turned || spec.x_norm) continue;
      const PackedLinear packed = this->packed(spec);
      return {packed, backend_.matmul.weight(packed).data()};
    }
    return nullptr;
  }
  Step lookup(const std::vector<TokenIndex>& which, const Node& node, const std::shared_ptr<const Norm>& norm) const {
    std::vector<Table> tables;
    for (std::size_t t = 0; t < which.size(); ++t) tables.push_back(table(node.weights[t].tensor));
    return [operations = backend_.rows, which, tables, norm, out = slot(node.output), columns = columns(node.output),
            dtype = options_.dtype](const Frame& frame) {
      std::vector<LookupTable> looked_up;
      for (std::size_t t = 0; t < which.size(); ++t)
        looked_up.push_back({.table = tables[t].view, .indices = frame.indices[static_cast<std::size_t>(which[t])]});
      const NormWeights weights = norm ? norm->weights() : NormWeights{};
      operations.lookup({frame.rows, columns, dtype, frame.queue}, looked_up, norm ? &weights : nullptr, out.at(frame));
    };
  }
  Step step(const op::Input&, const Node&) const {
    return [](const Frame&) {};
  }
  Step step(const op::Lookup& op, const Node& node) const { return lookup({op.index}, node, nullptr); }
  Step step(const op::Embed& op, const Node& node) const {
    return lookup(op.indices, node, op.epsilon ? norm(node, op.indices.size(), *op.epsilon) : nullptr);
  }

  Step add(const Node& node, const std::shared_ptr<const void>& bias, Activation activation) const {
    const bool two = node.inputs.size() == 2;
    return [operations = backend_.rows, x = slot(node.inputs[0]), y = slot(node.inputs.back()), two, bias, activation,
            out = slot(node.output), columns = columns(node.output), dtype = options_.dtype](const Frame& frame) {
      const Addend second = bias ? Addend{bias.get(), true} : Addend{two ? y.at(frame) : nullptr};
      operations.add({frame.rows, columns, dtype, frame.queue}, x.at(frame), second, activation, out.at(frame));
    };
  }
  Step step(const op::Add&, const Node& node) const { return add(node, nullptr, Activation::none); }
  Step step(const op::AddBias& op, const Node& node) const {
    return add(node, copied(in_a_row(node.weights).view(), DType::f32), op.activation);
  }
  Step step(const op::Activate& op, const Node& node) const { return add(node, nullptr, op.activation); }

  bool is_paired(ValueId value) const { return paired_[static_cast<std::size_t>(value)]; }
  Step step(const op::Gate& op, const Node& node) const {
    const std::int64_t all = columns(node.output), columns = is_paired(node.inputs[0]) ? kPairedColumns : all;
    return [gate = backend_.rows.gate, x = slot(node.inputs[0]), op, out = slot(node.output), rows = all / columns,
            columns, dtype = options_.dtype](const Frame& frame) {
      gate({frame.rows * rows, columns, dtype, frame.queue}, x.at(frame), op.activation, out.at(frame));
    };
  }
  std::shared_ptr<const void> angles(const op::Rotate& op, std::int64_t head_dim, AngleOrder order) const {
    RotaryShape shape{.positions = options_.longest, .head_dim = head_dim, .theta = op.theta, .scaling = op.scaling};
    shape.pairs = op.pairs, shape.order = order;
    return options_.weights->find_or_make(stof::text_of(shape), [&] { return brought(rotary_angles(shape)); });
  }
  Turning turning(const op::Rotate& op, const Node& node) const {
    const std::int64_t head_dim = packed_head_dim(op, columns(node.output));
    Turning turning{.angles = angles(op, head_dim, AngleOrder::cosines_then_sines), .scales = {}};
    for (const Weight& scale : node.weights) turning.scales.push_back(placed(scale.tensor, DType::f32));
    if (op.norm)
      turning.norms = {.q_scale = static_cast<const float*>(turning.scales[0].get()),
                       .k_scale = static_cast<const float*>(turning.scales[1].get()),
                       .q_heads = op.heads,
                       .epsilon = static_cast<float>(*op.norm)};
    return turning;
  }
  Step step(const op::Rotate& op, const Node& node) {
    const std::int64_t columns = this->columns(node.output), head_dim = packed_head_dim(op, columns);
    std::optional<std::size_t> joins;  // the site of the attention that may do this, too
    if (layer() && may_join(*layer()))
      joins = site(std::get<op::AttendPacked>(graph_.nodes[layer()->attention].op), head_dim);
    return [rotate = backend_.rows.rotate, turning = turning(op, node), q_heads = op.heads,
            heads = op.heads + op.kv_heads, head_dim, layer = layer(), joins, x = slot(node.inputs[0]),
            out = slot(node.output), columns, dtype = options_.dtype](const Frame& frame) {
      if (joins && joined_at(frame, *joins) != nullptr) return;
      KeptHeads kept;
      if (layer && frame.cached != nullptr && frame.cached->continues)
        kept = {.rows = layer->rows(*frame.cached, dtype), .places = frame.cached->places, .first_head = q_heads};
      rotate({frame.rows, columns, dtype, frame.queue},
             {.angles = static_cast<const float*>(turning.angles.get()),
              .positions = frame.indices[static_cast<std::size_t>(TokenIndex::position)],
              .heads = heads,
              .head_dim = head_dim,
              .norms = turning.norms,
              .kept = kept},
             x.at(frame), out.at(frame));
    };
  }

  Step normalise(const Node& node, double epsilon) const {
    const bool two = node.inputs.size() == 2;
    return [operations = backend_.rows, x = slot(node.inputs[0]), y = slot(node.inputs.back()), two,
            norm = norm(node, 0, epsilon), out = slot(node.output), columns = columns(node.output),
            dtype = options_.dtype](const Frame& frame) {
      operations.layer_norm({frame.rows, columns, dtype, frame.queue}, x.at(frame), two ? y.at(frame) : nullptr,
                            norm->weights(), out.at(frame));
    };
  }
  Step step(const op::LayerNorm& op, const Node& node) const { return normalise(node, op.epsilon); }
  Step step(const op::RmsNorm& op, const Node& node) const { return normalise(node, op.epsilon); }
  Step step(const op::AddLayerNorm& op, const Node& node) const { return normalise(node, op.epsilon); }
  Step step(const op::RmsNormAdd& op, const Node& node) const {
    return [norm_add = backend_.rows.norm_add, x = slot(node.inputs[0]), y = slot(node.inputs[1]),
            norm = norm(node, 0, op.epsilon), out = slot(node.output), columns = columns(node.output),
            dtype = options_.dtype](const Frame& frame) {
      norm_add({frame.rows, columns, dtype, frame.queue}, x.at(frame), norm->weights(), y.at(frame), out.at(frame));
    };
  }

  // Behind the value.
  struct Moments {
    Slot slot;
    bool are_there = false;
    float* at(const Frame& frame) const { return are_there ? static_cast<float*>(slot.at(frame)) : nullptr; }
  };
  Moments moments(ValueId value) const { return {slot(value).behind(columns(value)), graph_.value(value).moments}; }

  PackedLinear packed(LinearSpec spec) const {
    const std::string matrix = text_of_matrix(spec);
    if (backend_.matmul.pack_matrix != nullptr)
      spec.matrix = options_.weights->find_or_make(matrix, [&] { return backend_.matmul.pack_matrix(spec); });
    return options_.weights->find_or_make(matrix + text_of_epilogue(spec), [&] { return backend_.matmul.pack(spec); });
  }

  // Of the matmul that is built after this one: known then.
  std::shared_ptr<const std::span<const std::byte>> weight_after(const PackedLinear& packed) {
    if (backend_.matmul.weight != nullptr && last_next_weight_) *last_next_weight_ = backend_.matmul.weight(packed);
    last_next_weight_ = std::make_shared<std::span<const std::byte>>();
    return last_next_weight_;
  }

  // That all of the program's matmuls take.
  void limit_rows(const LinearSpec& spec) {
    std::int64_t& most = program_.most_rows_;
    if (spec.few_rows) most = std::min(most, backend_.matmul.few_rows);
    while (spec.few_rows && most > 0 && backend_.matmul.settings(spec, most).empty()) --most;
  }

  Step linear(const Node& node) {
    LinearSpec spec = linear_spec(node, options_.dtype, on_host_ ? nullptr : &options_.device);
    spec.paired = is_paired(node.output);
    limit_rows(spec);
    if (!in_tail_)
      for (const TensorView& part : spec.weight) program_.weights_of_rows_ += element_count(part.shape);
    const PackedLinear packed = this->packed(spec);
    const auto* op = std::get_if<op::Linear>(&node.op);
    const std::shared_ptr<const std::span<const std::byte>> next_weight = weight_after(packed);
    const std::shared_ptr<const void> turning =
        spec.turned ? angles(*op->turned, spec.turned->head_dim, AngleOrder::pairs) : nullptr;
    return [run = backend_.matmul.run, packed, next_weight, turning, setting = setting_for(node, packed),
            x = slot(node.inputs[0]), residual = slot(node.inputs.back()), adds = spec.residual,
            norms_residual = spec.residual_norm.has_value(), out = slot(node.output),
            out_use = cache_uses_[static_cast<std::size_t>(node.output)], x_moments = moments(node.inputs[0]),
            residual_moments = moments(node.inputs.back()), moments = moments(node.output)](const Frame& frame) {
      run(packed, {.x = x.at(frame),
                   .out = out.at(frame),
                   .residual = adds ? residual.at(frame) : nullptr,
                   .rows = frame.rows,
                   .out_use = frame.outgrows_cache ? out_use : CacheUse::unknown,
                   .next_weight = *next_weight,
                   .queue = frame.queue,
                   .setting = *setting ? &**setting : nullptr,
                   .x_moments = x_moments.at(frame),
                   .residual_moments = norms_residual ? residual_moments.at(frame) : nullptr,
                   .moments = moments.at(frame),
                   .angles = static_cast<const float*>(turning.get()),
                   .positions = frame.indices[static_cast<std::size_t>(TokenIndex::position)]});
    };
  }
  Step step(const op::MatMul&, const Node& node) { return linear(node); }
  Step step(const op::Linear&, const Node& node) { return linear(node); }

  // Nodes of one work share it: one change changes them all.
  std::shared_ptr<const std::optional<MatmulSetting>> setting_for(const Node& node, const PackedLinear& packed) {
    Program::Tunable& tunable = program_.tunables_[work_text(graph_, node)];
    tunable.packed.push_back(packed);
    return tunable.setting;
  }

  // Arrays over positions fit the lengths that they were made for, and no single key.
  static bool takes_any_length(const Mask& mask, std::int64_t heads) {
    try {
      const BoundMask bound(mask, {.queries = 1, .keys = 1, .batch = 1, .heads = heads});
      return bound.extent().keys == 1;
    } catch (const Error& refused) {
      if (refused.kind() != ErrorKind::invalid_argument) throw;
      return false;
    }
  }

  // Layers with one mask and shape share a site.
  std::size_t site(const op::AttendPacked& op, std::int64_t head_dim) {
    auto& sites = program_.sites_;
    const auto found =
        std::find_if(sites.begin(), sites.end(), [&](const auto& site) { return site.serves(op, head_dim); });
    if (found != sites.end()) return static_cast<std::size_t>(found - sites.begin());
    const bool by_length = depends_on_length(op.mask);
    sites.push_back({op.mask, op.heads, op.kv_heads, head_dim, op.scores.softcap.has_value(), op.scores.biased,
                     !by_length && takes_any_length(op.mask, op.heads)});
    program_.plans_by_length_ = program_.plans_by_length_ || by_length;
    return sites.size() - 1;
  }

  Step step(const op::Attend& op, const Node& node) {
    ++program_.attention_steps_;
    const std::int64_t hidden = columns(node.output), head_dim = hidden / op.heads;
    const std::size_t of = site({op.heads, op.heads, op.mask, op.scores}, head_dim);
    program_.sites_[of].all_join = false;
    return AttentionStep{.qkv = {slot(node.inputs[0]), slot(node.inputs[1]), slot(node.inputs[2])},
                         .first_column = {0, 0, 0},
                         .stride = hidden,
                         .out = slot(node.output),
                         .heads = op.heads,
                         .kv_heads = op.heads,
                         .head_dim = head_dim,
                         .dtype = options_.dtype,
                         .scores = op.scores,
                         .bias = relative_bias_of(op.scores, node, *options_.weights, options_.device),
                         .site = of,
                         .backend = &backend_};
  }
  // Whether what a layer's attention reads and gives lies at multiples of 16 bytes, for any number of rows.
  bool may_join(const CacheLayer& layer) const {
    constexpr std::int64_t kElements = 8;  // of 16 bits
    const Node& attention = graph_.nodes[layer.attention];
    const auto is_aligned = [&](ValueId value) {
      const Slot of = slot(value);
      return of.whole % kElements == 0 && of.split % kElements == 0;
    };
    return is_aligned(attention.inputs[0]) && is_aligned(attention.output);
  }
  // Of the attention that is being built. What it reads lies where the turn found it.
  std::optional<TurnedInFront> in_front() const {
    if (!layer()->rotation) return std::nullopt;
    const Node& rotate = graph_.nodes[*layer()->rotation];
    const Slot x = slot(rotate.inputs[0]), turned = slot(rotate.output);
    STOF_CHECK(x.whole == turned.whole && x.split == turned.split);
    return TurnedInFront{.x = x, .turning = turning(std::get<op::Rotate>(rotate.op), rotate)};
  }
  Step step(const op::AttendPacked& op, const Node& node) {
    const Slot qkv = slot(node.inputs[0]);
    const std::int64_t stride = columns(node.inputs[0]), head_dim = packed_head_dim(op, stride);
    const std::int64_t k = op.heads * head_dim, v = k + op.kv_heads * head_dim;
    ++program_.attention_steps_;
    const AttentionStep step{.qkv = {qkv, qkv, qkv},
                             .first_column = {0, k, v},
                             .stride = stride,
                             .out = slot(node.output),
                             .heads = op.heads,
                             .kv_heads = op.kv_heads,
                             .head_dim = head_dim,
                             .dtype = options_.dtype,
                             .scores = op.scores,
                             .bias = relative_bias_of(op.scores, node, *options_.weights, options_.device),
                             .site = site(op, head_dim),
                             .layer = layer(),
                             .in_front = in_front(),
                             .may_join = may_join(*layer()),
                             .backend = &backend_};
    program_.cache_widths_.push_back(step.layer->width);
    bool& all_join = program_.sites_[step.site].all_join;
    all_join = all_join && step.may_join;
    return step;
  }

  const Graph& graph_;
  Program& program_;
  const ProgramOptions& options_;
  const std::vector<CacheUse> cache_uses_;
  const std::vector<std::optional<CacheLayer>> cache_layers_;
  std::shared_ptr<std::span<const std::byte>> last_next_weight_;
  const Backend& backend_;
  const std::vector<bool> paired_;  // of each value: whether its halves are (LinearSpec::paired)
  const bool on_host_;
  bool in_tail_ = false;
};

void Program::add_steps(const Graph& graph) { ProgramBuilder(graph, *this).build(); }

}  // namespace stof
