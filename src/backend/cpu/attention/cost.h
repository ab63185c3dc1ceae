// SPDX-License-Identifier: Apache-2.0
// What the CPU kernels are predicted to take: amounts of work from the statistics of a mask, times nanoseconds of one
// core from the table in use (cost_table.h).
#pragma once
#include <array>

#include "src/backend/contract.h"
#include "src/backend/cpu/attention/cost_table.h"

namespace stof::cpu {

// Kernels skip dead cells inside a block, so the block size hardly matters to the arithmetic: 64 shares out small
// problems among cores, 128 costs less to plan and to widen 16-bit storage for.
inline constexpr std::array<BlockSize, 2> kBlockSizes{{{64, 64}, {128, 128}}};

// Of the row-wise kernel: enough to pay for taking it, few enough to share.
inline constexpr std::int64_t kRowsPerPiece = 16;
// Of a row-block that several threads share at the end: whole panels of the kernel, which gives the same bits whoever
// computes which of them.
inline constexpr int kPartRows = 32;

// Amounts of work; `times_d` ones are multiplied by the head dimension.
struct BlockWork {
  double row_blocks = 0, rows_times_d = 0;
  double entries = 0, keys_times_d = 0;  // keys of entries
  double partial = 0;
  double pairs = 0, pairs_times_d = 0;  // in live cells
};
BlockCosts terms_of(const BlockWork& work);

// One row-block with so many full and partial entries.
BlockWork block_work(const BlockSize& size, double full, double partial, double partial_live, std::int64_t head_dim);
double block_ns(const BlockWork& work, DType dtype);

struct RowWork {
  double rows = 0, rows_times_d = 0;
  double keys = 0, keys_times_d = 0;  // allowed keys of all rows
};
RowCosts terms_of(const RowWork& work);
RowWork row_work(double rows, double keys, std::int64_t head_dim);
double row_ns(const RowWork& work, DType dtype);

// Sums over the problem with every item at its full length: what the calibration fits.
BlockWork total_work(const AttentionProblem& problem, const BlockStats& stats);
RowWork total_work(const AttentionProblem& problem);

// Microseconds on caps.cores cores, the costliest row-blocks first.
double predict_blocks(const AttentionProblem& problem, const BlockStats& stats, const DeviceCaps& caps);
double predict_rows(const AttentionProblem& problem, const DeviceCaps& caps);

}  // namespace stof::cpu
