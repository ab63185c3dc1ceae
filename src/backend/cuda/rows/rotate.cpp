// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/rows/rotate.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "src/backend/cuda/rows.h"
#include "src/backend/cuda/rows/launch.h"

namespace stof::cuda {
namespace {

// Of a row, behind its heads.
std::int64_t copied_columns(const RotateParams& params) {
  const bool stays = params.x == params.out && params.kept == nullptr;
  return stays ? 0 : params.columns - std::int64_t{2} * params.heads * params.half;
}

// A head's lanes: the power of two that has a piece of either half each, or a warp, whose lanes have several.
void rotate_normed(const RowShape& shape, const RotaryHeads& heads, const RotateParams& params) {
  const HeadNorms& norms = heads.norms;
  if (params.half > NormedHeadsGrid::kMostHalf)
    fail(ErrorKind::unsupported, "norms of heads of {} on CUDA; accepted: at most {}", heads.head_dim,
         2 * NormedHeadsGrid::kMostHalf);
  if (shape.rows == 0 || shape.columns == 0 || params.half == 0) return;
  const int vector = vector_of(shape.dtype);
  bool vectors = params.half % vector == 0 && params.columns % vector == 0;
  for (const void* address : {params.x, static_cast<const void*>(params.out), static_cast<const void*>(params.angles),
                              static_cast<const void*>(norms.q_scale), static_cast<const void*>(norms.k_scale),
                              static_cast<const void*>(params.kept)})
    vectors = vectors && aligned(address);
  const auto pieces = static_cast<unsigned>(params.half / (vectors ? vector : 1));
  const std::int64_t copied = copied_columns(params);
  const std::int64_t of_row = heads.heads + (copied + heads.head_dim - 1) / heads.head_dim;
  const NormedHeadsParams normed{.heads = params,
                                 .q_scale = norms.q_scale,
                                 .k_scale = norms.k_scale,
                                 .epsilon = norms.epsilon,
                                 .inverse_dim = 1.f / static_cast<float>(heads.head_dim),
                                 .q_heads = narrow<int>(norms.q_heads, "heads"),
                                 .heads_of_row = narrow<int>(of_row, "heads"),
                                 .lane_bits = std::min(static_cast<int>(std::bit_width(pieces - 1)), 5)};
  const int of_cta = NormedHeadsGrid::kThreads >> normed.lane_bits;
  launch(shape.queue, {"normed_heads", rotate_normed_entry(shape.dtype, vectors), NormedHeadsGrid::kThreads},
         {.x = ceil_div(narrow<int>(shape.rows * of_row, "rows * heads"), of_cta)}, normed);
}

// Groups of heads that a warp takes at a time, with those of what is copied; 0 where it does not take them, or they are
// more than a grid has.
std::int64_t groups_of(const RotateParams& params, int vector) {
  constexpr std::int64_t kMost = 65535;
  if (!TurnedHeadsGrid::takes(params.half, vector)) return 0;
  const int slots = 32 / (2 * params.half / vector);
  const std::int64_t groups =
      std::int64_t{ceil_div(params.heads, slots)} + ceil_div(copied_columns(params), 32 * vector);
  return groups <= kMost ? groups : 0;
}

void turn_heads(const RowShape& shape, const RotateParams& params, std::int64_t groups) {
  using Grid = TurnedHeadsGrid;
  if (narrow<int>(shape.rows + Grid::kWarps, "rows") == Grid::kWarps) return;
  const std::int64_t warps = shape.rows * ceil_div(groups, Grid::kGroups[1]);
  const bool many = warps >= std::int64_t{Grid::kLeastWarps} * gpu_running(shape.queue).caps.cores;
  const int each = Grid::kGroups[many ? 1 : 0];
  launch(shape.queue, {"turned_heads", turn_heads_entry(shape.dtype, each), 32 * Grid::kWarps},
         {.x = ceil_div(shape.rows, Grid::kWarps), .y = ceil_div(groups, each)}, params);
}

}  // namespace

void rotate(const RowShape& shape, const RotaryHeads& heads, const void* x, void* out) {
  const std::int64_t half = heads.head_dim / 2, turned = 2 * heads.heads * half;
  STOF_CHECK(turned <= shape.columns && heads.head_dim % 2 == 0);
  const KeptHeads& kept = heads.kept;
  const bool keeps = kept.rows != nullptr;
  STOF_CHECK(!keeps || (kept.first_head <= heads.heads && std::ssize(kept.places) >= shape.rows));
  const RotateParams params{
      .x = x,
      .out = out,
      .angles = heads.angles,
      .positions = heads.positions.data(),
      .heads = narrow<int>(heads.heads, "heads"),
      .half = narrow<int>(half, "head_dim"),
      .columns = narrow<int>(shape.columns, "columns"),
      .rows = narrow<int>(shape.rows, "rows"),
      .kept_from = narrow<int>(keeps ? kept.first_head * heads.head_dim : shape.columns, "columns"),
      .kept = kept.rows,
      .places = keeps ? kept.places.data() : nullptr};
  if (heads.norms.q_scale != nullptr) return rotate_normed(shape, heads, params);
  const int vector = vector_of(shape.dtype);
  const bool vectors =
      half % vector == 0 && shape.columns % vector == 0 && aligned(x) && aligned(out) && aligned(kept.rows);
  if (const std::int64_t groups = vectors ? groups_of(params, vector) : 0; groups > 0)
    return turn_heads(shape, params, groups);
  const std::int64_t values = turned / 2 + copied_columns(params);  // of a row, a pair being one
  launch_halves(shape, rotate_entry(shape.dtype, vectors), values / (vectors ? vector : 1), params);
}

std::string turn_heads_entry(DType dtype, int groups) {
  return fmt::format("_ZN4stof4cuda17turn_heads_kernelINS0_{}ELi{}EEEvNS0_12RotateParamsE", storage_of(dtype), groups);
}

std::string rotate_entry(DType dtype, bool vectors) {
  return fmt::format("_ZN4stof4cuda13rotate_kernelINS0_{}ELb{:d}EEEvNS0_12RotateParamsE", storage_of(dtype), vectors);
}

std::string rotate_normed_entry(DType dtype, bool vectors) {
  return fmt::format("_ZN4stof4cuda20rotate_normed_kernelINS0_{}ELb{:d}EEEvNS0_17NormedHeadsParamsE", storage_of(dtype),
                     vectors);
}

}  // namespace stof::cuda
