// SPDX-License-Identifier: Apache-2.0
#include "src/attention/call_tensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "src/base/error.h"

namespace stof {
namespace {

// Of scores: kernels multiply them with scale / softcap and softcap, in units of log2, both of which fp32 has then. An
// infinite factor would make NaN of a score of 0.
constexpr float kMostFactor = 1e18f;

// One tensor argument: which of its dimensions are rows, heads and the head's elements.
struct Expected {
  std::string_view name;
  const TensorView* tensor;
  DType dtype;
  std::int64_t heads;
  bool packed = false;                              // one item after the other
  std::string_view first = "batch", rows = "rows";  // what the dimensions are, in messages
};

void check_tensor(const Expected& expected, std::int64_t head_dim) {
  const TensorView& tensor = *expected.tensor;
  const std::size_t rank = expected.packed ? 3 : 4, head = 1;
  if (tensor.dtype != expected.dtype)
    fail(ErrorKind::invalid_argument, "attention: {} is {}; this plan takes {}", expected.name, name_of(tensor.dtype),
         name_of(expected.dtype));
  if (tensor.rank() != rank || tensor.dim(head) != expected.heads || tensor.dim(rank - 1) != head_dim) {
    const std::string taken =
        expected.packed ? fmt::format("[rows, {}, {}]", expected.heads, head_dim)
                        : fmt::format("[{}, {}, {}, {}]", expected.first, expected.heads, expected.rows, head_dim);
    fail(ErrorKind::invalid_argument, "attention: {} has shape {}; this plan takes {}", expected.name,
         to_string(tensor.shape), taken);
  }
  if (tensor.strides.size() != rank || (head_dim > 1 && tensor.strides[rank - 1] != 1))
    fail(ErrorKind::invalid_argument, "attention: {} has strides {}; the last must be 1", expected.name,
         to_string(tensor.strides));
}

// No two places of what is written share memory: each stride steps over all that smaller strides reach. `row` elements
// lie side by side at every place.
void check_apart(std::string_view name, const TensorView& tensor, bool packed, std::int64_t row) {
  struct Dimension {
    std::string_view name;
    std::int64_t size, stride;
  };
  std::array<Dimension, 3> dimensions{};
  const std::size_t count = packed ? 2 : 3;
  for (std::size_t i = 0; i < count; ++i)
    dimensions[i] = {i == 1 ? "heads" : i == 0 && !packed ? "items" : "rows", tensor.shape[i], tensor.strides[i]};
  std::sort(dimensions.begin(), dimensions.end(),
            [](const Dimension& a, const Dimension& b) { return a.stride < b.stride; });
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::int64_t reach = row;
  for (const auto& [dimension, size, stride] : dimensions) {
    if (size <= 1) continue;
    if (stride < reach)
      fail(ErrorKind::invalid_argument,
           "attention: {} of {} are {} elements apart, so that rows share memory; accepted here: {} or more", dimension,
           name, stride, reach);
    reach = (size - 1) > (kMost - reach) / stride ? kMost : reach + (size - 1) * stride;
  }
}

void check_same_shape(const AttentionArguments& a, bool packed) {
  if (a.out.shape != a.q.shape)
    fail(ErrorKind::invalid_argument, "attention: out has shape {}; q has {}", to_string(a.out.shape),
         to_string(a.q.shape));
  if (a.v.shape != a.k.shape)
    fail(ErrorKind::invalid_argument, "attention: v has shape {}; k has {}", to_string(a.v.shape),
         to_string(a.k.shape));
  if (!packed && !a.page_table && a.k.dim(0) != a.q.dim(0))
    fail(ErrorKind::invalid_argument, "attention: k has {} items; q has {}", a.k.dim(0), a.q.dim(0));
  if (!a.lse) return;
  // As q without its last dimension.
  const std::span<const std::int64_t> expected(a.q.shape.data(), a.q.rank() - 1);
  if (a.lse->dtype != DType::f32 ||
      !std::equal(a.lse->shape.begin(), a.lse->shape.end(), expected.begin(), expected.end()))
    fail(ErrorKind::invalid_argument, "attention: lse is {} {}; this call takes f32 {}", name_of(a.lse->dtype),
         to_string(a.lse->shape), to_string(Shape(expected.begin(), expected.end())));
  if (a.lse->strides.size() != expected.size())
    fail(ErrorKind::invalid_argument, "attention: lse has strides {}; accepted: one for each dimension",
         to_string(a.lse->strides));
}

}  // namespace

void check_has_memory(std::string_view name, const TensorView& tensor) {
  if (tensor.data == nullptr && element_count(tensor.shape) > 0)
    fail(ErrorKind::invalid_argument, "attention: {} has no memory, its data is null; its shape is {}", name,
         to_string(tensor.shape));
}

void check_tensors(const AttentionArguments& a, const AttentionShape& shape, bool packed) {
  const bool paged = a.page_table.has_value(), packed_keys = packed && !paged;
  const std::string_view first = paged ? "pages" : "batch", rows = paged ? "page_size" : "rows";
  for (const Expected& expected : {Expected{"q", &a.q, shape.dtype, shape.heads, packed},
                                   Expected{"k", &a.k, shape.dtype, shape.kv_heads, packed_keys, first, rows},
                                   Expected{"v", &a.v, shape.dtype, shape.kv_heads, packed_keys, first, rows},
                                   Expected{"out", &a.out, shape.dtype, shape.heads, packed}})
    check_tensor(expected, shape.head_dim);
  check_same_shape(a, packed);
  for (const auto& [name, tensor] : {std::pair{"q", &a.q}, {"k", &a.k}, {"v", &a.v}, {"out", &a.out}})
    check_has_memory(name, *tensor);
  if (element_count(a.out.shape) > 0) check_apart("out", a.out, packed, shape.head_dim);
  if (a.lse) check_has_memory("lse", *a.lse);
  if (a.lse && element_count(a.lse->shape) > 0) check_apart("lse", *a.lse, packed, 1);
  if (a.scale && !(std::abs(*a.scale) <= kMostFactor))
    fail(ErrorKind::invalid_argument, "attention: scale = {}; accepted: -1e18..1e18", *a.scale);
  if (a.softcap && !(*a.softcap >= 1 / kMostFactor && *a.softcap <= kMostFactor))
    fail(ErrorKind::invalid_argument, "attention: softcap = {}; accepted: 1e-18..1e18", *a.softcap);
}

}  // namespace stof
