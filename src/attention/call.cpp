// SPDX-License-Identifier: Apache-2.0
#include "src/attention/call.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "src/base/error.h"

namespace stof {
namespace {

// One tensor argument: which of its dimensions are rows, heads and the head's elements.
struct Expected {
  std::string_view name;
  const TensorView* tensor;
  DType dtype;
  std::int64_t heads;
};

void check_tensor(const Expected& expected, bool packed, std::int64_t head_dim) {
  const TensorView& tensor = *expected.tensor;
  const std::size_t rank = packed ? 3 : 4, head = 1;
  if (tensor.dtype != expected.dtype)
    fail(ErrorKind::invalid_argument, "attention: {} is {}; this plan takes {}", expected.name, name_of(tensor.dtype),
         name_of(expected.dtype));
  if (tensor.rank() != rank || tensor.dim(head) != expected.heads || tensor.dim(rank - 1) != head_dim)
    fail(ErrorKind::invalid_argument, "attention: {} has shape {}; this plan takes [{}, {}, {}{}]", expected.name,
         to_string(tensor.shape), packed ? "rows" : "batch", expected.heads, packed ? "" : "rows, ", head_dim);
  if (tensor.strides.size() != rank || (head_dim > 1 && tensor.strides[rank - 1] != 1))
    fail(ErrorKind::invalid_argument, "attention: {} has strides {}; the last must be 1", expected.name,
         to_string(tensor.strides));
}

void check_same_shape(const AttentionArguments& a, bool packed) {
  if (a.out.shape != a.q.shape)
    fail(ErrorKind::invalid_argument, "attention: out has shape {}; q has {}", to_string(a.out.shape),
         to_string(a.q.shape));
  if (a.v.shape != a.k.shape)
    fail(ErrorKind::invalid_argument, "attention: v has shape {}; k has {}", to_string(a.v.shape),
         to_string(a.k.shape));
  if (!packed && a.k.dim(0) != a.q.dim(0))
    fail(ErrorKind::invalid_argument, "attention: k has {} items; q has {}", a.k.dim(0), a.q.dim(0));
  if (!a.lse) return;
  // As q without its last dimension.
  const std::span<const std::int64_t> expected(a.q.shape.data(), a.q.rank() - 1);
  if (a.lse->dtype != DType::f32 ||
      !std::equal(a.lse->shape.begin(), a.lse->shape.end(), expected.begin(), expected.end()))
    fail(ErrorKind::invalid_argument, "attention: lse is {} {}; this call takes f32 {}", name_of(a.lse->dtype),
         to_string(a.lse->shape), to_string(Shape(expected.begin(), expected.end())));
}

void check_length(std::string_view name, std::size_t item, std::int64_t length, std::int64_t limit) {
  if (length < 0 || length > limit)
    fail(ErrorKind::invalid_argument, "attention: {} of item {} is {}; accepted: 0..{}", name, item, length, limit);
}

void check_offsets(std::string_view name, std::span<const std::int32_t> offsets, std::int64_t rows) {
  if (offsets.size() < 2 || offsets.front() != 0 || offsets.back() > rows)
    fail(ErrorKind::invalid_argument,
         "attention: {} has {} offsets from {} to {}; accepted: batch + 1 offsets from 0 to at most {}", name,
         offsets.size(), offsets.empty() ? 0 : offsets.front(), offsets.empty() ? 0 : offsets.back(), rows);
  for (std::size_t i = 1; i < offsets.size(); ++i)
    if (offsets[i] < offsets[i - 1])
      fail(ErrorKind::invalid_argument, "attention: {} falls from {} to {} at offset {}", name, offsets[i - 1],
           offsets[i], i);
}

using Items = std::pmr::vector<AttentionItem>;

Items packed_items(const AttentionArguments& a, const AttentionShape& shape, std::pmr::memory_resource* memory) {
  check_offsets("cu_q", a.cu_q, a.q.dim(0));
  check_offsets("cu_kv", a.cu_kv, a.k.dim(0));
  if (a.cu_q.size() != a.cu_kv.size())
    fail(ErrorKind::invalid_argument, "attention: cu_q has {} offsets; cu_kv has {}", a.cu_q.size(), a.cu_kv.size());
  Items items(a.cu_q.size() - 1, memory);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::int64_t q = a.cu_q[i], kv = a.cu_kv[i];
    items[i] = {.index = static_cast<std::int64_t>(i),
                .queries = a.cu_q[i + 1] - q,
                .keys = a.cu_kv[i + 1] - kv,
                .q = q * a.q.strides[0],
                .k = kv * a.k.strides[0],
                .v = kv * a.v.strides[0],
                .out = q * a.out.strides[0],
                .lse = a.lse ? q * a.lse->strides[0] : 0};
    check_length("the length of cu_q", i, items[i].queries, shape.queries);
    check_length("the length of cu_kv", i, items[i].keys, shape.keys);
  }
  return items;
}

void check_lengths(std::string_view name, std::span<const std::int32_t> lengths, std::int64_t batch) {
  if (!lengths.empty() && std::cmp_not_equal(lengths.size(), batch))
    fail(ErrorKind::invalid_argument, "attention: {} has {} lengths for {} items", name, lengths.size(), batch);
}

Items padded_items(const AttentionArguments& a, const AttentionShape& shape, std::pmr::memory_resource* memory) {
  const std::int64_t batch = a.q.dim(0), queries = a.q.dim(2), keys = a.k.dim(2);
  if (a.q_lengths.empty()) check_length("the number of query rows", 0, queries, shape.queries);
  if (a.kv_lengths.empty()) check_length("the number of keys", 0, keys, shape.keys);
  check_lengths("q_lengths", a.q_lengths, batch);
  check_lengths("kv_lengths", a.kv_lengths, batch);
  Items items(static_cast<std::size_t>(batch), memory);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    items[i] = {.index = index,
                .queries = a.q_lengths.empty() ? queries : a.q_lengths[i],
                .keys = a.kv_lengths.empty() ? keys : a.kv_lengths[i],
                .q = index * a.q.strides[0],
                .k = index * a.k.strides[0],
                .v = index * a.v.strides[0],
                .out = index * a.out.strides[0],
                .lse = a.lse ? index * a.lse->strides[0] : 0};
    check_length("q_lengths", i, items[i].queries, std::min(queries, shape.queries));
    check_length("kv_lengths", i, items[i].keys, std::min(keys, shape.keys));
  }
  return items;
}

AttentionStrides strides_of(const TensorView& tensor, bool packed) {
  return packed ? AttentionStrides{.head = tensor.strides[1], .row = tensor.strides[0]}
                : AttentionStrides{.head = tensor.strides[1], .row = tensor.strides[2]};
}

AttentionCall call_of(const AttentionArguments& a, const AttentionShape& shape, bool packed) {
  AttentionCall call;
  call.q = a.q.data;
  call.k = a.k.data;
  call.v = a.v.data;
  call.out = a.out.data;
  call.q_strides = strides_of(a.q, packed);
  call.k_strides = strides_of(a.k, packed);
  call.v_strides = strides_of(a.v, packed);
  call.out_strides = strides_of(a.out, packed);
  if (a.lse) {
    call.lse = a.lse->as<float>();
    call.lse_strides = strides_of(*a.lse, packed);
  }
  call.packed = packed;
  call.stream = a.stream;
  call.workspace = a.workspace;
  call.heads = shape.heads;
  call.kv_heads = shape.kv_heads;
  call.head_dim = shape.head_dim;
  call.dtype = shape.dtype;
  call.scale = a.scale.value_or(static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim))));
  return call;
}

void check_tensors(const AttentionArguments& a, const AttentionShape& shape, bool packed) {
  for (const Expected& expected :
       {Expected{"q", &a.q, shape.dtype, shape.heads}, Expected{"k", &a.k, shape.dtype, shape.kv_heads},
        Expected{"v", &a.v, shape.dtype, shape.kv_heads}, Expected{"out", &a.out, shape.dtype, shape.heads}})
    check_tensor(expected, packed, shape.head_dim);
  check_same_shape(a, packed);
  if (a.scale && !std::isfinite(*a.scale))
    fail(ErrorKind::invalid_argument, "attention: scale = {}; accepted: a finite number", *a.scale);
}

Items readable_items(const AttentionArguments& a, const AttentionShape& shape, std::pmr::memory_resource* memory) {
  const AttentionRows& rows = *a.rows;
  Items items(memory);
  for (std::int64_t i = 0; i < rows.items; ++i) {
    const std::int64_t start = rows.starts[i], length = rows.lengths[i];
    check_length("the length of rows", static_cast<std::size_t>(i), length, shape.queries);
    if (start < 0 || start + length > a.q.dim(0))
      fail(ErrorKind::invalid_argument, "attention: item {} has rows {}..{}; q has {}", i, start, start + length,
           a.q.dim(0));
    if (length == 0) continue;
    items.push_back({.index = 0,
                     .queries = length,
                     .keys = length,
                     .q = start * a.q.strides[0],
                     .k = start * a.k.strides[0],
                     .v = start * a.v.strides[0],
                     .out = start * a.out.strides[0]});
  }
  return items;
}

}  // namespace

CheckedCall check_rows_call(const AttentionArguments& arguments, const AttentionShape& shape, bool readable,
                            std::pmr::memory_resource* memory) {
  const AttentionArguments& a = arguments;
  const AttentionRows& rows = *a.rows;
  if (!a.cu_q.empty() || !a.cu_kv.empty() || !a.q_lengths.empty() || !a.kv_lengths.empty())
    fail(ErrorKind::invalid_argument, "attention: both rows and lengths or offsets; give one of them");
  if (a.lse) fail(ErrorKind::invalid_argument, "attention: lse with rows; accepted: cu_q and cu_kv with an lse");
  if (shape.queries != shape.keys)
    fail(ErrorKind::invalid_argument, "attention: rows for a plan of {} queries and {} keys; accepted: as many of both",
         shape.queries, shape.keys);
  if (rows.items < 0 || rows.items > shape.batch)
    fail(ErrorKind::invalid_argument, "attention: {} items; accepted with rows: 0..{}, as planned", rows.items,
         shape.batch);
  check_tensors(a, shape, true);
  if (a.k.dim(0) != a.q.dim(0))
    fail(ErrorKind::invalid_argument, "attention: k has {} rows; q has {}", a.k.dim(0), a.q.dim(0));
  CheckedCall checked{.call = call_of(a, shape, true), .items = Items(memory)};
  checked.call.memory = memory;
  if (readable) {
    checked.items = readable_items(a, shape, memory);
  } else if (rows.items > 0 && shape.queries > 0) {
    checked.call.device_items = {
        .count = rows.items, .rows = a.q.dim(0), .starts = rows.starts, .lengths = rows.lengths};
    checked.items.push_back({.queries = shape.queries, .keys = shape.keys});
  }
  return checked;
}

CheckedCall check_call(const AttentionArguments& arguments, const AttentionShape& shape, bool batch_matters,
                       std::pmr::memory_resource* memory) {
  const AttentionArguments& a = arguments;
  const bool packed = !a.cu_q.empty() || !a.cu_kv.empty();
  if (packed && (!a.q_lengths.empty() || !a.kv_lengths.empty()))
    fail(ErrorKind::invalid_argument, "attention: both cumulative offsets and lengths; give one of the two");
  check_tensors(a, shape, packed);
  CheckedCall checked{.call = call_of(a, shape, packed),
                      .items = packed ? packed_items(a, shape, memory) : padded_items(a, shape, memory)};
  checked.call.memory = memory;
  if (batch_matters && std::cmp_greater(checked.items.size(), shape.batch))
    fail(ErrorKind::invalid_argument, "attention: {} items; the mask differs by item and was planned for {}",
         checked.items.size(), shape.batch);
  std::erase_if(checked.items, [](const AttentionItem& item) { return item.queries == 0; });
  if (!batch_matters)
    for (AttentionItem& item : checked.items) item.index = 0;
  return checked;
}

void check_workspace(const AttentionArguments& arguments, std::size_t needed) {
  constexpr std::uintptr_t kAlignment = 16;
  if (arguments.workspace_bytes < needed)
    fail(ErrorKind::invalid_argument, "attention: the workspace has {} bytes; this plan needs {}",
         arguments.workspace_bytes, needed);
  if (reinterpret_cast<std::uintptr_t>(arguments.workspace) % kAlignment != 0)
    fail(ErrorKind::invalid_argument, "attention: the workspace is at {}; accepted: a multiple of {}",
         arguments.workspace, kAlignment);
}

}  // namespace stof
