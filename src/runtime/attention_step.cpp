// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/attention_step.h"

#include "src/base/error.h"
#include "src/tensor/convert.h"

namespace stof {
namespace {

// Copied to the device before the look-up of the call's embeddings, which overlaps nothing in front of it.
AttentionRows settled(AttentionRows texts) {
  texts.settled = true;
  return texts;
}

// Heads of rows that are `stride` elements apart, as attention wants them.
struct HeadsShape {
  DType dtype;
  std::int64_t heads, head_dim, stride;
};
TensorView heads_of(void* data, const HeadsShape& shape, const Frame& frame) {
  if (!frame.texts && frame.batch->padded)
    return {.data = data,
            .dtype = shape.dtype,
            .shape = {frame.batch->texts, shape.heads, frame.batch->longest, shape.head_dim},
            .strides = {frame.batch->longest * shape.stride, shape.head_dim, shape.stride, 1}};
  return {.data = data,
          .dtype = shape.dtype,
          .shape = {frame.rows, shape.heads, shape.head_dim},
          .strides = {shape.stride, shape.head_dim, 1}};
}

// Of texts that have one row each.
TensorView one_row_each(void* data, const HeadsShape& shape, const Frame& frame) {
  return {.data = data,
          .dtype = shape.dtype,
          .shape = {frame.rows, shape.heads, 1, shape.head_dim},
          .strides = {shape.stride, shape.head_dim, shape.stride, 1}};
}

}  // namespace

std::shared_ptr<const RelativeBias> relative_bias_of(const op::Scores& scores, const Node& node, WeightStore& weights,
                                                     const Device& device) {
  if (!scores.biased) return nullptr;
  const TensorView& weight = node.weights[0].tensor;
  const auto bias = weights.find_or_make(fmt::format("{} relative bias", weight.data), [&] {
    const Tensor values = converted(weight, DType::f32);
    return std::make_shared<const RelativeBias>(std::span(values.as<float>(), static_cast<std::size_t>(values.size())),
                                                weight.dim(0), weight.dim(1) / 2, device);
  });
  return std::static_pointer_cast<const RelativeBias>(bias);
}

std::byte* AttentionStep::data_of(int which, const Frame& frame) const {
  const auto i = static_cast<std::size_t>(which);
  return static_cast<std::byte*>(qkv[i].at(frame)) + static_cast<std::size_t>(first_column[i]) * size_of(dtype);
}

TensorView AttentionStep::rows_of(int which, const Frame& frame) const {
  return heads_of(data_of(which, frame), {dtype, which == 0 ? heads : kv_heads, head_dim, stride}, frame);
}

std::byte* AttentionStep::cached_rows(const Frame& frame) const {
  STOF_CHECK(layer.has_value());
  return layer->rows(*frame.cached, dtype);
}

// Those of a prompt are read from the call's rows, and are in the cache besides.
bool AttentionStep::copies_keys(const Frame& frame) const {
  return frame.cached != nullptr && !(frame.cached->continues && layer && layer->rotation);
}

void AttentionStep::keep_keys(const Frame& frame) const {
  STOF_CHECK(layer && std::ssize(frame.cached->places) >= frame.rows);
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  backend->rows.copy({.rows = frame.rows,
                      .bytes = layer->width * element,
                      .x = data_of(1, frame),
                      .out = cached_rows(frame),
                      .x_stride = stride * element,
                      .out_stride = layer->width * element,
                      .to = frame.cached->places,
                      .queue = frame.queue});
}

AttentionArguments AttentionStep::among_themselves(const Frame& frame) const {
  AttentionArguments arguments{.q = rows_of(0, frame),
                               .k = rows_of(1, frame),
                               .v = rows_of(2, frame),
                               .out = heads_of(out.at(frame), {dtype, heads, head_dim, heads * head_dim}, frame)};
  if (frame.texts) arguments.rows = settled(*frame.texts);
  else if (frame.batch->padded) arguments.q_lengths = arguments.kv_lengths = frame.batch->lengths;
  else arguments.cu_q = arguments.cu_kv = frame.batch->offsets;
  return arguments;
}

AttentionArguments AttentionStep::with_cached_keys(const Frame& frame) const {
  const CachedKeys& cached = *frame.cached;
  const auto keys = [&](std::int64_t first) {
    return TensorView{.data = cached_rows(frame) + static_cast<std::size_t>(first) * size_of(dtype),
                      .dtype = dtype,
                      .shape = {frame.rows, kv_heads, cached.keys, head_dim},
                      .strides = {cached.capacity * layer->width, head_dim, layer->width, 1}};
  };
  AttentionArguments arguments{.q = one_row_each(data_of(0, frame), {dtype, heads, head_dim, stride}, frame),
                               .k = keys(0),
                               .v = keys(kv_heads * head_dim),
                               .out = one_row_each(out.at(frame), {dtype, heads, head_dim, heads * head_dim}, frame),
                               .kv_lengths = cached.lengths};
  if (!cached.device_lengths.empty())
    arguments.device_kv_lengths = view_of(const_cast<std::int32_t*>(cached.device_lengths.data()), DType::i32,
                                          {std::ssize(cached.device_lengths)});
  return arguments;
}

// Of a shape that was planned for more texts, maybe.
void AttentionStep::join(const Frame& frame, TokenAttentionShape shape) const {
  const CachedKeys& cached = *frame.cached;
  shape.texts = frame.rows;
  backend->token_attention->run(
      shape, {.x = in_front ? in_front->x.at(frame) : qkv[0].at(frame),
              .out = out.at(frame),
              .heads = {.angles = in_front ? static_cast<const float*>(in_front->turning.angles.get()) : nullptr,
                        .positions = frame.indices[static_cast<std::size_t>(TokenIndex::position)],
                        .heads = heads + kv_heads,
                        .head_dim = head_dim,
                        .norms = in_front ? in_front->turning.norms : HeadNorms{},
                        .kept = {.rows = cached_rows(frame), .places = cached.places, .first_head = heads}},
              .capacity = cached.capacity,
              .lengths = cached.device_lengths,
              .queue = frame.queue});
}

void AttentionStep::operator()(const Frame& frame) const {
  if (const TokenAttentionShape* const joined = joined_at(frame, site); joined != nullptr && may_join)
    return join(frame, *joined);
  if (copies_keys(frame)) keep_keys(frame);
  AttentionArguments arguments =
      frame.cached != nullptr && frame.cached->continues ? with_cached_keys(frame) : among_themselves(frame);
  if (scores.scale) arguments.scale = static_cast<float>(*scores.scale);
  if (scores.softcap) arguments.softcap = static_cast<float>(*scores.softcap);
  arguments.relative_bias = bias.get();
  arguments.stream = frame.queue.stream;
  arguments.backwards = frame.queue.backwards;
  arguments.out_read_next = frame.outgrows_cache;
  arguments.may_plan = frame.plans == nullptr;
  arguments.plans_used = frame.plans;
  (*frame.attention)[site]->run(arguments);
}

}  // namespace stof
