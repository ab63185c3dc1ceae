// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cpu/attention/work_list.h"

#include <omp.h>

#include <algorithm>
#include <tuple>

#include "src/backend/cpu/matmul.h"
#include "src/base/error.h"

namespace stof::cpu {
namespace {

Storage storage_of(DType dtype) {
  if (dtype == DType::f16) return Storage::f16;
  if (dtype == DType::bf16) return Storage::bf16;
  STOF_CHECK(dtype == DType::f32);
  return Storage::f32;
}

// Fetching ahead takes 12 % off what a sparse mask costs with 50 MB of q, k, v and out, and adds 6 % with 6 MB, where
// the last-level cache is near enough.
constexpr std::int64_t kNearBytes = 16 << 20;

std::int64_t bytes_touched(const AttentionCall& call) {
  std::int64_t rows = 0;
  for (const AttentionItem& item : call.items) rows += item.queries * call.heads + item.keys * call.kv_heads;
  return 2 * rows * call.head_dim * static_cast<std::int64_t>(size_of(call.dtype));
}

// Rows that others lie between, as where one product made q, k and v of all heads: the steps are too long for a
// processor to follow by itself, and each row's first touch would wait even for the last-level cache
// (bench/results/cpu-rows-apart.txt, of steps of 4,608 bytes and more; that it begins at kFollowed is a guess).
bool rows_lie_apart(const AttentionCall& call) {
  constexpr std::int64_t kFollowed = 1024;  // bytes
  const std::int64_t row = std::max({call.q_strides.row, call.k_strides.row, call.v_strides.row});
  return row > call.head_dim && row * static_cast<std::int64_t>(size_of(call.dtype)) >= kFollowed;
}

static_assert(HeadBias::kMargin == ScoreBias::kMargin);

HeadBias bias_of(const AttentionCall& call, const Piece& piece) {
  if (call.bias.values == nullptr) return {};
  return {.zero = call.bias.zero_of(piece.head),
          .reach = static_cast<int>(call.bias.reach),
          .before = static_cast<int>(piece.item->keys - piece.item->queries)};
}

}  // namespace

AttentionNumbers numbers_of(const AttentionCall& call, const DeviceCaps& caps) {
  return {.head_dim = static_cast<int>(call.head_dim),
          .storage = storage_of(call.dtype),
          .scale = call.scale,
          .softcap = call.softcap,
          .bf16_tiles = caps.bf16_matrix,
          .bf16_pairs = multiplies_pairs(caps),
          .far = bytes_touched(call) > kNearBytes || rows_lie_apart(call)};
}

AttentionHead head_of(const AttentionCall& call, const Piece& piece) {
  const AttentionItem& item = *piece.item;
  const std::int64_t kv_head = piece.head / (call.heads / call.kv_heads);
  const auto element = static_cast<std::int64_t>(size_of(call.dtype));
  const auto at = [element](const void* base, std::int64_t offset) {  // null where no item has keys
    return base == nullptr ? nullptr : static_cast<const std::byte*>(base) + offset * element;
  };
  return {.q = at(call.q, item.q + piece.head * call.q_strides.head),
          .k = at(call.k, item.k + kv_head * call.k_strides.head),
          .v = at(call.v, item.v + kv_head * call.v_strides.head),
          .out = static_cast<std::byte*>(call.out) + (item.out + piece.head * call.out_strides.head) * element,
          .lse = call.lse == nullptr ? nullptr : call.lse + item.lse + piece.head * call.lse_strides.head,
          .q_stride = call.q_strides.row,
          .k_stride = call.k_strides.row,
          .v_stride = call.v_strides.row,
          .out_stride = call.out_strides.row,
          .lse_stride = call.lse_strides.row,
          .keys = static_cast<int>(item.keys),
          .bias = bias_of(call, piece)};
}

int threads_for(std::span<const Piece> pieces, int cores) {
  if (pieces.size() < 2 || cores < 2 || omp_in_parallel() != 0) return 1;
  constexpr double kWorthAThread = 20e3;
  double total = 0;
  for (const Piece& piece : pieces) total += piece.cost_ns;
  const double worth = std::min(total / kWorthAThread, static_cast<double>(std::min<std::size_t>(pieces.size(), 4096)));
  return std::clamp(static_cast<int>(worth), 1, cores);
}

void line_up(std::pmr::vector<Piece>& pieces, int threads, int part_rows) {
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {  // as a stable sort, which allocates
    return std::tie(b.cost_ns, a.item, a.head, a.row) < std::tie(a.cost_ns, b.item, b.head, b.row);
  });
  if (part_rows == 0) return;
  const std::size_t whole = pieces.size();
  for (std::size_t i = whole - std::min(whole, static_cast<std::size_t>(threads)); i < whole; ++i) {
    const double row_ns = pieces[i].cost_ns / static_cast<double>(pieces[i].rows);
    while (pieces[i].rows > part_rows) {
      Piece part = pieces[i];
      part.rows = part_rows - part.lane % part_rows;
      part.cost_ns = row_ns * static_cast<double>(part.rows);
      pieces[i].row += part.rows;
      pieces[i].lane += static_cast<int>(part.rows);
      pieces[i].rows -= part.rows;
      pieces[i].cost_ns -= part.cost_ns;
      pieces.push_back(part);
    }
  }
}

int thread_index() { return omp_get_thread_num(); }

}  // namespace stof::cpu
