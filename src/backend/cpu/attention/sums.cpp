// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cpu/attention/sums.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "src/backend/cpu/rows.h"
#include "src/backend/two_results.h"
#include "src/base/pool.h"

namespace stof::cpu {
namespace {

struct Memory {
  std::vector<float> lse, other_lse;
  std::vector<std::byte> other_out;
};
struct Room {
  AttentionShape shape;
  mutable Pool<Memory> memory;  // as many as ran at the same time
};

struct Weights {
  float mine, other, lse;
};
Weights weights_of(float mine, float other) {
  constexpr float kNone = -INFINITY;
  const float most = std::isnan(mine) ? mine : std::isnan(other) ? other : std::max(mine, other);
  if (most == kNone) return {1, 0, kNone};  // a row without a key in either keeps its zeros
  const float a = std::exp(mine - most), b = std::exp(other - most), sum = a + b;
  return {a / sum, b / sum, most + std::log(sum)};
}

void add(const AttentionCall& call, const TwoResults& results) {
  const auto items = static_cast<std::int64_t>(call.items.size()), rows = call.items.front().queries;
  const auto element = static_cast<std::int64_t>(size_of(call.dtype));
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < items * call.heads * rows; ++i) {
    const std::int64_t row = i % rows, head = i / rows % call.heads;
    const AttentionItem& item = call.items[static_cast<std::size_t>(i / rows / call.heads)];
    const Weights weights = weights_of(results.first.lse[i], results.second.lse[i]);
    const std::int64_t at = item.out + head * call.out_strides.head + row * call.out_strides.row;
    blend_row({.row = static_cast<std::byte*>(call.out) + at * element,
               .other = static_cast<const std::byte*>(results.second.out) + i * call.head_dim * element,
               .weight = weights.mine,
               .other_weight = weights.other,
               .columns = static_cast<int>(call.head_dim),
               .type = row_type(call.dtype)});
    if (call.lse != nullptr)
      call.lse[item.lse + head * call.lse_strides.head + row * call.lse_strides.row] = weights.lse;
  }
}

// Both results are read and one is written, at about half of what two cores copy (37 GB/s in
// bench/results/cpu-attention-peers.json): an estimate, not fitted.
double predicted_us(const AttentionShape& shape, const DeviceCaps&) {
  constexpr double kBytesPerUs = 20e3;
  return 3 * result_bytes(shape) / kBytesPerUs;
}

Refusal refuses(const AttentionShape& shape) {
  constexpr double kMostResultBytes = 512e6;
  return refuses_result(shape, kMostResultBytes);
}

std::shared_ptr<const void> reserve(const AttentionShape& shape, const Device&) {
  auto room = std::make_shared<Room>();
  room->shape = shape;
  return room;
}

std::size_t workspace_bytes(const AttentionShape&) { return 0; }

void run(const std::shared_ptr<const void>& room_of_plan, const AttentionCall& call, const Device&,
         const SumOperations::Compute& compute) {
  const Room& room = *static_cast<const Room*>(room_of_plan.get());
  const Pool<Memory>::Lease lease(room.memory);
  Memory& memory = *lease;
  memory.lse.resize(result_rows(room.shape));
  memory.other_lse.resize(result_rows(room.shape));
  memory.other_out.resize(result_rows(room.shape) * static_cast<std::size_t>(room.shape.head_dim) *
                          size_of(room.shape.dtype));
  const TwoResults results(call, {memory.lse.data(), memory.other_lse.data(), memory.other_out.data()});
  compute(results.first, results.second);
  add(call, results);
}

}  // namespace

const SumOperations sum_operations{.refuses = refuses,
                                   .predicted_us = predicted_us,
                                   .reserve = reserve,
                                   .workspace_bytes = workspace_bytes,
                                   .run = run};

}  // namespace stof::cpu
