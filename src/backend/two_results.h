// SPDX-License-Identifier: Apache-2.0
// A call as two that see different keys, with results of their own: the first one's out is the call's, the second one's
// lies in other memory, as do the logarithms of both, [items][heads][rows] and whole rows of head_dim.
#pragma once
#include "src/backend/contract.h"

namespace stof {

// Rows of all items and heads of a call as large as planned.
inline std::size_t result_rows(const AttentionShape& shape) {
  return static_cast<std::size_t>(shape.batch) * static_cast<std::size_t>(shape.heads * shape.queries);
}

// Of a second result, with the logarithms of both. A shape may have more rows than an integer counts.
inline double result_bytes(const AttentionShape& s) {
  const double rows = static_cast<double>(s.batch) * static_cast<double>(s.heads) * static_cast<double>(s.queries);
  return rows * (static_cast<double>(s.head_dim) * static_cast<double>(size_of(s.dtype)) + 2 * sizeof(float));
}

// Why a second result is not kept, where it takes more than so many bytes.
Refusal refuses_result(const AttentionShape& shape, double most_bytes);

struct ResultMemory {
  float *lse, *other_lse;  // result_rows() each
  void* other_out;         // result_rows() rows
};

// Items in the call's memory, and calls that are valid as long as this is.
struct TwoResults {
  TwoResults(const AttentionCall& call, const ResultMemory& memory);
  TwoResults(const TwoResults&) = delete;
  TwoResults& operator=(const TwoResults&) = delete;

  std::pmr::vector<AttentionItem> first_items, second_items;
  AttentionCall first, second;
};

}  // namespace stof
