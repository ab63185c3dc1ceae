// SPDX-License-Identifier: Apache-2.0
// Row operations as models call them, for timing: sizes, values, and what each has to move.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/backend/operations.h"

namespace stof {

enum class RowKind : std::uint8_t { norm, sum_norm, rotate, rotate_normed, gate, add, copy_from, copy_to };

// Of rows that are turned: heads of q, of k and of v, which stays as it is.
struct RowHeads {
  std::int64_t q = 32, k = 8, dim = 128;
  std::int64_t turned() const { return (q + k) * dim; }
  std::int64_t columns() const { return turned() + k * dim; }
};

struct RowProblem {
  RowKind kind;
  std::int64_t rows;
  std::int64_t columns;  // of out; of copies bytes; of heads that are turned, those of them all
  RowHeads heads = {};
};

inline constexpr DType kRowDType = DType::f16;  // of all but copies, which have none

bool is_copy(RowKind kind);
std::string_view kernel_of(const RowProblem& the);  // on a GPU
std::string_view way_of(RowKind kind);              // how it is called, where there are several, or nothing
std::string row_of(const RowProblem& the);
bool has_rows_alike(RowKind kind);  // out is as large as x, and is not x
std::int64_t moved_bytes(const RowProblem& the);

// Where operands lie. Null: there is none; out is x, then.
struct RowOperands {
  void *x, *y, *out;
  const float* floats;                   // of a norm; of heads: scales, then angles
  std::span<const std::int32_t> places;  // positions, or rows of copies
};

// Values on the host. out holds bytes of 0xFF, not a number, or nothing: x, then.
struct RowValues {
  std::vector<std::byte> x, y, out;
  std::vector<float> floats;
  std::vector<std::int32_t> places;
  RowOperands operands();
  std::vector<std::byte>& result() { return out.empty() ? x : out; }
};
RowValues values_of(const RowProblem& the);

void call(const RowProblem& the, const RowOperations& rows, const WorkQueue& queue, const RowOperands& on);

}  // namespace stof
