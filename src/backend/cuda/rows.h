// SPDX-License-Identifier: Apache-2.0
// Operations on rows of activations:
// kernels/cuda/{sum_norm,row_norm,rms_norm,add_rows,halves,pool_rows,copy_rows,highest}.cuh as the contract wants them;
// heads that are turned are in rows/rotate.h.
#pragma once
#include <string>
#include <string_view>

#include "kernels/shared/rows.h"
#include "src/backend/cuda/driver/gpu.h"
#include "src/backend/operations.h"

namespace stof::cuda {

extern const RowOperations row_operations;

// Loads what RowOperations::add launches.
void prepare_add(const Gpu& gpu, DType dtype);

// The kernels' type for numbers stored so (kernels/cuda/storage.cuh), as entry points spell it: f32, f16 or bf16.
std::string_view storage_of(DType dtype);

// Entry points of the units "sum_norm", "row_norm", "rms_norm", "add_rows", "halves", "pool_rows", "copy_rows"
// and "highest".
// `sources`: 1..3, or 0 for the kernel that takes any number of them at any address.
std::string sum_norm_entry(DType dtype, int sources);
// In 16 bits; `vectors`: 1 to RowNormGrid::kMostVectors, or kMostRmsVectors, of 256 columns.
std::string row_norm_entry(DType dtype, int vectors, bool rms);
// `cta`: one of RmsNormGrid::kCtas that holds up to kMostColumns; `sources`: 1 or 2.
std::string rms_norm_entry(DType dtype, RmsNormCta cta, int form);
std::string wide_rms_norm_entry(DType dtype);
std::string add_rows_entry(DType dtype, bool vectors);
std::string gate_entry(DType dtype, bool vectors);
std::string pool_rows_entry(DType dtype);
std::string copy_rows_entry(int piece_bytes);  // 1, 2, 4 or 16
std::string highest_entry(DType dtype, bool vectors);
inline constexpr std::string_view kNormalizeEntry = "normalize_rows_kernel";
inline constexpr std::string_view kMergeHighestEntry = "merge_highest_kernel";

}  // namespace stof::cuda
