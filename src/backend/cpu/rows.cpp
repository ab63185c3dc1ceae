// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cpu/rows.h"

#include <omp.h>

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/cpu/halves.h"
#include "src/backend/cpu/matmul.h"
#include "src/base/error.h"
#include "src/base/narrow.h"

namespace stof::cpu {
namespace {

constexpr std::int64_t kRowsPerThread = 16;  // fewer are not worth waking a thread for
constexpr std::size_t kMaxTables = 4;

const void* row_at(const void* base, DType dtype, std::int64_t row, std::int64_t columns) {
  return static_cast<const std::byte*>(base) + row * columns * static_cast<std::int64_t>(size_of(dtype));
}

// Calls body(row, scratch) for every row, with room for `rows_of_scratch` rows in fp32; rows are independent, so the
// bits do not depend on the threads. Nothing is allocated inside: an exception cannot leave a parallel region.
template <class Body>
void for_each_row(const RowShape& shape, int rows_of_scratch, Body&& body) {
  const int threads = shape.rows >= 2 * kRowsPerThread ? omp_get_max_threads() : 1;
  const auto of_thread = static_cast<std::size_t>(rows_of_scratch * shape.columns);
  std::vector<float> scratch(static_cast<std::size_t>(threads) * of_thread);
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    float* const mine = scratch.data() + static_cast<std::size_t>(omp_get_thread_num()) * of_thread;
#pragma omp for schedule(static)
    for (std::int64_t row = 0; row < shape.rows; ++row) body(row, mine);
  }
}

RowNorm row_norm(const NormWeights& norm) {
  return {.scale = norm.scale, .shift = norm.shift, .epsilon = norm.epsilon};
}

void lookup(const RowShape& shape, std::span<const LookupTable> tables, const NormWeights* norm, void* out) {
  STOF_CHECK(tables.size() <= kMaxTables);
  const RowNorm weights = norm ? row_norm(*norm) : RowNorm{};
  const int columns = narrow<int>(shape.columns, "columns");
  for_each_row(shape, 1, [&](std::int64_t row, float* scratch) {
    std::array<RowSource, kMaxTables> sources;
    for (std::size_t t = 0; t < tables.size(); ++t) {
      const TensorView& table = tables[t].table;
      sources[t] = {row_at(table.data, table.dtype, tables[t].indices[static_cast<std::size_t>(row)], shape.columns),
                    row_type(table.dtype)};
    }
    sum_rows({.sources = sources.data(),
              .count = static_cast<int>(tables.size()),
              .norm = norm ? &weights : nullptr,
              .columns = columns,
              .out = const_cast<void*>(row_at(out, shape.dtype, row, shape.columns)),
              .type = row_type(shape.dtype),
              .scratch = scratch});
  });
}

void layer_norm(const RowShape& shape, const void* x, const void* residual, const NormWeights& norm, void* out) {
  const RowNorm weights = row_norm(norm);
  const int columns = narrow<int>(shape.columns, "columns");
  const RowType type = row_type(shape.dtype);
  for_each_row(shape, 1, [&](std::int64_t row, float* scratch) {
    std::array<RowSource, 2> sources{RowSource{row_at(x, shape.dtype, row, shape.columns), type}};
    if (residual) sources[1] = {row_at(residual, shape.dtype, row, shape.columns), type};
    sum_rows({.sources = sources.data(),
              .count = residual ? 2 : 1,
              .norm = &weights,
              .columns = columns,
              .out = const_cast<void*>(row_at(out, shape.dtype, row, shape.columns)),
              .type = type,
              .scratch = scratch});
  });
}

// What is normalised stays in fp32 until it is added: out may be y.
void norm_add(const RowShape& shape, const void* x, const NormWeights& norm, const void* y, void* out) {
  const RowNorm weights = row_norm(norm);
  const int columns = narrow<int>(shape.columns, "columns");
  const RowType type = row_type(shape.dtype);
  for_each_row(shape, 2, [&](std::int64_t row, float* scratch) {
    float* const normed = scratch + shape.columns;
    const RowSource source{row_at(x, shape.dtype, row, shape.columns), type};
    sum_rows({.sources = &source,
              .count = 1,
              .norm = &weights,
              .columns = columns,
              .out = normed,
              .type = row_type(DType::f32),
              .scratch = scratch});
    const std::array<RowSource, 2> sources{RowSource{normed, row_type(DType::f32)},
                                           RowSource{row_at(y, shape.dtype, row, shape.columns), type}};
    sum_rows({.sources = sources.data(),
              .count = 2,
              .norm = nullptr,
              .columns = columns,
              .out = const_cast<void*>(row_at(out, shape.dtype, row, shape.columns)),
              .type = type,
              .scratch = scratch});
  });
}

float activate(Activation activation, float x) {
  const float near = x < -200.f ? -200.f : x;  // where the smooth ones are 0, and -inf times that is not NaN
  switch (activation) {
    case Activation::none: return x;
    case Activation::gelu: return 0.5f * near * (1.f + std::erf(near * 0.70710678f));
    case Activation::gelu_tanh:
      return 0.5f * near * (1.f + std::tanh(0.79788456f * (near + 0.044715f * near * near * near)));
    case Activation::silu: return near / (1.f + std::exp(-near));
    case Activation::relu: return x < 0.f ? 0.f : x;  // NaN stays NaN
    case Activation::tanh: return std::tanh(x);
  }
  return x;
}

void add(const RowShape& shape, const void* x, const Addend& y, Activation activation, void* out) {
  const int columns = narrow<int>(shape.columns, "columns");
  const RowType type = row_type(shape.dtype);
  for_each_row(shape, activation == Activation::none ? 1 : 2, [&](std::int64_t row, float* scratch) {
    std::array<RowSource, 2> sources{RowSource{row_at(x, shape.dtype, row, shape.columns), type}};
    if (y.data)
      sources[1] = y.is_bias ? RowSource{y.data, RowType::f32}
                             : RowSource{row_at(y.data, shape.dtype, row, shape.columns), type};
    SumTask task{.sources = sources.data(),
                 .count = y.data ? 2 : 1,
                 .norm = nullptr,
                 .columns = columns,
                 .out = const_cast<void*>(row_at(out, shape.dtype, row, shape.columns)),
                 .type = type,
                 .scratch = scratch};
    if (activation == Activation::none) return sum_rows(task);
    float* const sum = scratch + columns;
    task.out = sum;
    task.type = RowType::f32;
    sum_rows(task);
    for (int i = 0; i < columns; ++i) sum[i] = activate(activation, sum[i]);
    const RowSource activated{sum, RowType::f32};
    sum_rows({.sources = &activated,
              .count = 1,
              .norm = nullptr,
              .columns = columns,
              .out = const_cast<void*>(row_at(out, shape.dtype, row, shape.columns)),
              .type = type,
              .scratch = scratch});
  });
}

void rotate(const RowShape& shape, const RotaryHeads& heads, const void* x, void* out) {
  const std::int64_t turned = heads.heads * heads.head_dim;
  STOF_CHECK(turned <= shape.columns && heads.head_dim % 2 == 0);
  const KeptHeads& kept = heads.kept;
  STOF_CHECK(kept.rows == nullptr || (kept.first_head <= heads.heads && std::ssize(kept.places) >= shape.rows));
  RotateTask task{.x = x,
                  .out = out,
                  .angles = heads.angles,
                  .q_scale = heads.norms.q_scale,
                  .k_scale = heads.norms.k_scale,
                  .epsilon = heads.norms.epsilon,
                  .heads = narrow<int>(heads.heads, "heads"),
                  .q_heads = narrow<int>(heads.norms.q_heads, "heads"),
                  .head_dim = narrow<int>(heads.head_dim, "head_dim"),
                  .rest = narrow<int>(shape.columns - turned, "columns"),
                  .type = row_type(shape.dtype),
                  .first_kept = narrow<int>(kept.first_head, "heads")};
  const std::int64_t kept_columns = shape.columns - kept.first_head * heads.head_dim;
#pragma omp parallel for schedule(static) firstprivate(task) if (shape.rows >= 2 * kRowsPerThread)
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    task.x = row_at(x, shape.dtype, row, shape.columns);
    task.out = const_cast<void*>(row_at(out, shape.dtype, row, shape.columns));
    task.angles = heads.angles + heads.positions[static_cast<std::size_t>(row)] * heads.head_dim;
    if (kept.rows != nullptr)
      task.kept =
          const_cast<void*>(row_at(kept.rows, shape.dtype, kept.places[static_cast<std::size_t>(row)], kept_columns));
    rotate_row(task);
  }
}

void gate(const RowShape& shape, const void* x, Activation activation, void* out) {
  GateTask task{.x = x,
                .out = out,
                .activation = linear_activation(activation),
                .columns = narrow<int>(shape.columns, "columns"),
                .type = row_type(shape.dtype)};
#pragma omp parallel for schedule(static) firstprivate(task) if (shape.rows >= 2 * kRowsPerThread)
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    task.x = row_at(x, shape.dtype, row, 2 * shape.columns);
    task.out = const_cast<void*>(row_at(out, shape.dtype, row, shape.columns));
    gate_row(task);
  }
}

void copy(const RowCopies& copies) {
  const auto row = [](std::span<const std::int32_t> rows, std::int64_t i) {
    return rows.empty() ? i : std::int64_t{rows[static_cast<std::size_t>(i)]};
  };
#pragma omp parallel for schedule(static) if (copies.rows >= 2 * kRowsPerThread)
  for (std::int64_t i = 0; i < copies.rows; ++i)
    std::memcpy(static_cast<std::byte*>(copies.out) + row(copies.to, i) * copies.out_stride,
                static_cast<const std::byte*>(copies.x) + row(copies.from, i) * copies.x_stride,
                static_cast<std::size_t>(copies.bytes));
}

}  // namespace

RowType row_type(DType dtype) {
  STOF_CHECK(dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16);
  return dtype == DType::f32 ? RowType::f32 : dtype == DType::f16 ? RowType::f16 : RowType::bf16;
}

const RowOperations row_operations{.lookup = lookup,
                                   .layer_norm = layer_norm,
                                   .norm_add = norm_add,
                                   .add = add,
                                   .rotate = rotate,
                                   .gate = gate,
                                   .copy = copy};

}  // namespace stof::cpu
