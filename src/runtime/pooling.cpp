// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/pooling.h"

#include <algorithm>
#include <cmath>

#include "src/base/error.h"
#include "src/base/narrow.h"

namespace stof {
namespace {

// NaN stays NaN, whichever of the two it is.
float larger(float x, float y) { return std::isnan(y) || x < y ? y : x; }

// Rows are taken in order, whatever the number of threads: threads share the texts.
void pool_text(const float* rows, std::int64_t count, std::int64_t columns, Pooling pooling, float* out) {
  std::copy_n(pooling == Pooling::last ? rows + (count - 1) * columns : rows, columns, out);
  if (wants_one_row(pooling)) return;
  for (std::int64_t r = 1; r < count; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      out[c] = pooling == Pooling::mean ? out[c] + rows[r * columns + c] : larger(out[c], rows[r * columns + c]);
  if (pooling == Pooling::mean)
    for (std::int64_t c = 0; c < columns; ++c) out[c] /= static_cast<float>(count);
}

}  // namespace

bool wants_one_row(Pooling pooling) { return pooling == Pooling::cls || pooling == Pooling::last; }

std::vector<std::int32_t> rows_wanted(const RowBatch& batch, Pooling pooling) {
  std::vector<std::int32_t> rows;
  if (!wants_one_row(pooling) || batch.rows == batch.texts) return rows;
  for (std::int64_t text = 0; text < batch.texts; ++text) {
    const std::int64_t behind = batch.lengths[static_cast<std::size_t>(text)] - 1;
    rows.push_back(narrow<std::int32_t>(batch.first_row(text) + (pooling == Pooling::last ? behind : 0), "row"));
  }
  return rows;
}

Tensor pool(const RowBatch& batch, const float* hidden, std::int64_t columns, Pooling pooling) {
  STOF_CHECK(pooling != Pooling::none);
  Tensor pooled(DType::f32, {batch.texts, columns});
#pragma omp parallel for if (batch.texts > 1)
  for (std::int64_t text = 0; text < batch.texts; ++text)
    pool_text(hidden + batch.first_row(text) * columns, batch.lengths[static_cast<std::size_t>(text)], columns, pooling,
              pooled.as<float>() + text * columns);
  return pooled;
}

void normalize_rows(const Tensor& rows) {
  const std::int64_t columns = rows.shape()[1];
  for (std::int64_t r = 0; r < rows.shape()[0]; ++r) {
    float* row = rows.as<float>() + r * columns;
    double squares = 0;
    for (std::int64_t c = 0; c < columns; ++c) squares += double{row[c]} * row[c];
    const double inverse = squares > 0 ? 1.0 / std::sqrt(squares) : 0.0;
    for (std::int64_t c = 0; c < columns; ++c) row[c] = static_cast<float>(row[c] * inverse);
  }
}

}  // namespace stof
