// SPDX-License-Identifier: Apache-2.0
#include "cli/attention_problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "src/attention/call.h"
#include "src/attention/reference.h"
#include "src/attention/score_bias.h"
#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/base/memory.h"
#include "src/tensor/convert.h"
#include "src/tensor/half.h"

namespace stof::cli {
namespace {

constexpr double kMostPairs = 4e6;  // that the reference looks at

// Sum of four uniform numbers, scaled to deviation 1: close to normal, and cheap.
float nearly_normal(std::uint64_t index) {
  const std::uint64_t bits = splitmix64(index);
  double sum = -2;
  for (int part = 0; part < 64; part += 16) sum += static_cast<double>((bits >> part) & 0xFFFFu) / 65536.0;
  return static_cast<float>(sum * std::sqrt(3.0));
}

Tensor random_tensor(const Shape& shape, DType dtype, std::uint64_t seed) {
  const Tensor tensor(DType::f32, shape);
  float* const values = tensor.as<float>();
  const std::int64_t count = tensor.size();
#pragma omp parallel for
  for (std::int64_t i = 0; i < count; ++i) values[i] = nearly_normal((seed << 40) + static_cast<std::uint64_t>(i));
  return converted(tensor.view(), dtype);
}

float element(const Tensor& tensor, std::int64_t index) {
  switch (tensor.dtype()) {
    case DType::f16: return float_of_f16(tensor.as<std::uint16_t>()[index]);
    case DType::bf16: return float_of_bf16(tensor.as<std::uint16_t>()[index]);
    default: return tensor.as<float>()[index];
  }
}

bool all_finite(const Tensor& tensor) {
  const std::int64_t count = tensor.size();
  bool finite = true;
#pragma omp parallel for reduction(&& : finite)
  for (std::int64_t i = 0; i < count; ++i) finite = finite && std::isfinite(element(tensor, i));
  return finite;
}

// Relative Frobenius error; a single row may be off by ten times as much.
double bound_of(DType dtype) { return dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 2e-3 : 1e-2; }

// Rows of (item, head, query), flattened: all, or the first and last of each kind and random ones between.
std::vector<std::int64_t> rows_to_check(const AttentionShape& shape) {
  const std::int64_t rows = shape.batch * shape.heads * shape.queries;
  const auto wanted = std::max<std::int64_t>(
      48, static_cast<std::int64_t>(kMostPairs / static_cast<double>(std::max<std::int64_t>(1, shape.keys))));
  std::vector<std::int64_t> chosen;
  if (rows <= wanted) {
    for (std::int64_t row = 0; row < rows; ++row) chosen.push_back(row);
    return chosen;
  }
  for (std::int64_t i = 0; i < wanted; ++i) {
    const std::int64_t head = i * shape.batch * shape.heads / wanted;  // goes over all items and heads
    const auto random = static_cast<std::int64_t>(splitmix64(static_cast<std::uint64_t>(i) + 1) >> 33);
    const std::int64_t query = i % 8 == 0 ? 0 : i % 8 == 1 ? shape.queries - 1 : random % shape.queries;
    chosen.push_back(head * shape.queries + query);
  }
  return chosen;
}

struct RowError {
  double difference = 0, norm = 0;  // sums of squares
};

RowError compare(const BoundMask& mask, const AttentionProblemInputs& problem, const CheckedCall& checked,
                 std::int64_t row) {
  const AttentionShape& s = problem.shape;
  const std::int64_t query = row % s.queries, head = row / s.queries % s.heads, item = row / s.queries / s.heads;
  const ReferenceRow expected =
      reference_attention(mask, checked.call, checked.items[static_cast<std::size_t>(item)], head, query);
  RowError error;
  for (std::int64_t c = 0; c < s.head_dim; ++c) {
    const double want = expected.out[static_cast<std::size_t>(c)];
    const double got = element(problem.out, row * s.head_dim + c);
    error.difference += (got - want) * (got - want);
    error.norm += want * want;
  }
  return error;
}

// The four lie in memory together, beside one in fp32 while it is made.
const AttentionShape& fitting(const AttentionShape& s) {
  const auto of_q = static_cast<double>(s.heads * s.queries), of_k = static_cast<double>(s.kv_heads * s.keys);
  const double elements = static_cast<double>(s.batch) * static_cast<double>(s.head_dim);
  const auto size = static_cast<double>(size_of(s.dtype));
  check_memory(fmt::format("attention of ({},{},{},{})", s.batch, s.heads, s.queries, s.head_dim),
               elements * (2 * size * (of_q + of_k) + sizeof(float) * std::max(of_q, of_k)));
  return s;
}

}  // namespace

AttentionProblemInputs::AttentionProblemInputs(const AttentionShape& the_shape)
    : shape(fitting(the_shape)),
      q(random_tensor({shape.batch, shape.heads, shape.queries, shape.head_dim}, shape.dtype, 1)),
      k(random_tensor({shape.batch, shape.kv_heads, shape.keys, shape.head_dim}, shape.dtype, 2)),
      v(random_tensor({shape.batch, shape.kv_heads, shape.keys, shape.head_dim}, shape.dtype, 3)),
      out(shape.dtype, q.shape()) {}

void AttentionProblemInputs::add_bias(std::int64_t reach) {
  const Tensor values = random_tensor({shape.heads, 2 * reach + 1}, DType::f32, 4);
  bias.emplace(std::span(values.as<float>(), static_cast<std::size_t>(values.size())), shape.heads, reach,
               open_device("cpu"));
}

AttentionArguments AttentionProblemInputs::arguments() const {
  AttentionArguments arguments{.q = q.view(), .k = k.view(), .v = v.view(), .out = out.view()};
  if (softcap > 0) arguments.softcap = softcap;
  if (bias) arguments.relative_bias = &*bias;
  return arguments;
}

void AttentionProblemInputs::poison() const { std::memset(out.data(), 0xFF, out.bytes()); }

AttentionError check_attention(const BoundMask& mask, const AttentionProblemInputs& problem) {
  if (!all_finite(problem.out)) fail(ErrorKind::internal, "bug in STOF: an output of attention is not finite");
  CheckedCall checked = check_call(problem.arguments(), problem.shape, mask.extent().batch > 1);
  checked.call.bias = score_bias(problem.arguments(), problem.shape, open_device("cpu"));
  const std::vector<std::int64_t> rows = rows_to_check(problem.shape);
  std::vector<RowError> errors(rows.size());
#pragma omp parallel for schedule(dynamic)
  for (std::size_t i = 0; i < rows.size(); ++i) errors[i] = compare(mask, problem, checked, rows[i]);
  RowError total;
  AttentionError result;
  for (const RowError& error : errors) {
    total.difference += error.difference;
    total.norm += error.norm;
    if (error.difference > 0) result.worst_row = std::max(result.worst_row, std::sqrt(error.difference / error.norm));
  }
  if (total.difference > 0) result.frobenius = std::sqrt(total.difference / total.norm);
  const double bound = bound_of(problem.shape.dtype);
  if (!(result.frobenius < bound && result.worst_row < 10 * bound))
    fail(ErrorKind::internal,
         "bug in STOF: attention is wrong by {:.2e} of its norm, a row by {:.2e}; accepted: {:.0e} and {:.0e}",
         result.frobenius, result.worst_row, bound, 10 * bound);
  return result;
}

}  // namespace stof::cli
