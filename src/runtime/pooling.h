// SPDX-License-Identifier: Apache-2.0
// One vector a text from the vectors of its tokens.
#pragma once
#include "src/runtime/batch.h"

namespace stof {

// One token of each text is all that is wanted: its first or its last.
bool wants_one_row(Pooling pooling);
// The rows that the result is of, where it is of one token of each text and not of all, ascending; else none.
std::vector<std::int32_t> rows_wanted(const RowBatch& batch, Pooling pooling);

// hidden is [rows, columns] f32; the result [texts, columns]. Pooling::none is refused by a bug check.
Tensor pool(const RowBatch& batch, const float* hidden, std::int64_t columns, Pooling pooling);
// Divides each row by its length; a row of zeros stays.
void normalize_rows(const Tensor& rows);

}  // namespace stof
