// SPDX-License-Identifier: Apache-2.0
#include "bench/row_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "kernels/shared/rows.h"
#include "src/base/error.h"
#include "src/tensor/half.h"

namespace stof {
namespace {

constexpr std::int64_t kStored = 2;  // bytes of a number
bool turns(RowKind kind) { return kind == RowKind::rotate || kind == RowKind::rotate_normed; }

// Bytes, and numbers of the others.
struct Sizes {
  std::int64_t x, y, out, floats, places;
};
Sizes sizes_of(const RowProblem& the) {
  const std::int64_t bytes = the.rows * the.columns * kStored, listed = the.rows * the.columns;
  const std::int64_t turned = the.rows * the.heads.columns() * kStored;
  switch (the.kind) {
    case RowKind::norm: return {bytes, 0, bytes, the.columns, 0};
    case RowKind::sum_norm: return {bytes, bytes, bytes, the.columns, 0};
    case RowKind::rotate: return {turned, 0, 0, the.rows * the.heads.dim, the.rows};
    case RowKind::rotate_normed: return {turned, 0, 0, (2 + the.rows) * the.heads.dim, the.rows};
    case RowKind::gate: return {2 * bytes, 0, bytes, 0, 0};
    case RowKind::add: return {bytes, bytes, bytes, 0, 0};
    case RowKind::copy_from: return {2 * listed, 0, listed, 0, the.rows};
    case RowKind::copy_to: return {listed, 0, 2 * listed, 0, the.rows};
  }
  bug("a kind of row operation", __FILE__, __LINE__);
}

// The same values again and again, so many that no row is like another.
std::vector<std::byte> stored_values(std::int64_t bytes, std::size_t first) {
  constexpr std::size_t kValues = 65521;
  std::mt19937 random(7);
  std::normal_distribution<float> values(0.3f, 1.5f);
  std::vector<std::uint16_t> some(kValues);
  for (std::uint16_t& value : some) value = f16_of_float(values(random));
  std::vector<std::byte> all(static_cast<std::size_t>(bytes));
  for (std::size_t at = 0; at < all.size(); first = 0) {
    const std::size_t count = std::min(2 * (kValues - first), all.size() - at);
    std::memcpy(all.data() + at, some.data() + first, count);
    at += count;
  }
  return all;
}

// Of each position cosines, then sines: rows that are turned many times stay as long.
void fill_angles(std::span<float> angles, std::size_t dim, std::mt19937& random) {
  std::uniform_real_distribution<float> values(0.f, 6.f);
  for (std::size_t at = 0; at < angles.size(); at += dim)
    for (std::size_t i = 0; i < dim / 2; ++i) {
      const float angle = values(random);
      angles[at + i] = std::cos(angle), angles[at + dim / 2 + i] = std::sin(angle);
    }
}

std::vector<std::int32_t> shuffled(std::int64_t count, std::int64_t among, std::mt19937& random) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(among));
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin(), all.end(), random);
  all.resize(static_cast<std::size_t>(count));
  return all;
}

RotaryHeads heads_of(const RowProblem& the, const RowOperands& on) {
  RotaryHeads heads{.angles = on.floats,
                    .positions = on.places,
                    .heads = the.heads.q + the.heads.k,
                    .head_dim = the.heads.dim,
                    .norms = {}};
  if (the.kind == RowKind::rotate_normed) {
    heads.norms = {.q_scale = on.floats, .k_scale = on.floats + the.heads.dim, .q_heads = the.heads.q};
    heads.angles = on.floats + 2 * the.heads.dim;
  }
  return heads;
}

}  // namespace

bool is_copy(RowKind kind) { return kind == RowKind::copy_from || kind == RowKind::copy_to; }

std::string_view kernel_of(const RowProblem& the) {
  switch (the.kind) {
    case RowKind::norm:
      return cuda::RowNormGrid::takes(the.rows, the.columns, true) ? "row_norm_kernel" : "rms_norm_kernel";
    case RowKind::sum_norm: return "rms_norm_kernel";
    case RowKind::rotate: return "turn_heads_kernel";
    case RowKind::rotate_normed: return "rotate_normed_kernel";
    case RowKind::gate: return "gate_kernel";
    case RowKind::add: return "add_rows_kernel";
    case RowKind::copy_from:
    case RowKind::copy_to: return "copy_rows_kernel";
  }
  bug("a kind of row operation", __FILE__, __LINE__);
}

std::string_view way_of(RowKind kind) {
  switch (kind) {
    case RowKind::sum_norm: return "with a residual";
    case RowKind::rotate:
    case RowKind::rotate_normed: return "in place";
    case RowKind::gate: return "silu";
    case RowKind::copy_from: return "from listed rows";
    case RowKind::copy_to: return "to listed rows";
    case RowKind::norm:
    case RowKind::add: return "";
  }
  bug("a kind of row operation", __FILE__, __LINE__);
}

std::string row_of(const RowProblem& the) {
  if (turns(the.kind)) return fmt::format("{} + {} heads of {}", the.heads.q, the.heads.k, the.heads.dim);
  return fmt::format(fmt::runtime(is_copy(the.kind) ? "{} bytes" : "{} columns"), the.columns);
}

bool has_rows_alike(RowKind kind) { return kind == RowKind::norm || kind == RowKind::sum_norm || kind == RowKind::add; }

std::int64_t moved_bytes(const RowProblem& the) {
  const Sizes sizes = sizes_of(the);
  const std::int64_t beside = 4 * (sizes.floats + sizes.places);
  if (turns(the.kind)) return 2 * the.rows * the.heads.turned() * kStored + beside;
  if (is_copy(the.kind)) return 2 * the.rows * the.columns + beside;
  return sizes.x + sizes.y + sizes.out + beside;
}

RowOperands RowValues::operands() {
  return {.x = x.data(),
          .y = y.empty() ? nullptr : y.data(),
          .out = out.empty() ? nullptr : out.data(),
          .floats = floats.data(),
          .places = places};
}

RowValues values_of(const RowProblem& the) {
  const Sizes sizes = sizes_of(the);
  std::mt19937 random(8);
  std::normal_distribution<float> scales(0.3f, 1.5f);
  RowValues values{.x = stored_values(sizes.x, 0),
                   .y = stored_values(sizes.y, 1000),
                   .out = std::vector<std::byte>(static_cast<std::size_t>(sizes.out), std::byte{0xff}),
                   .floats = std::vector<float>(static_cast<std::size_t>(sizes.floats)),
                   .places = shuffled(sizes.places, is_copy(the.kind) ? 2 * the.rows : sizes.places, random)};
  for (float& value : values.floats) value = scales(random);
  if (turns(the.kind))
    fill_angles(std::span(values.floats).last(static_cast<std::size_t>(sizes.places * the.heads.dim)),
                static_cast<std::size_t>(the.heads.dim), random);
  return values;
}

void call(const RowProblem& the, const RowOperations& rows, const WorkQueue& queue, const RowOperands& on) {
  void* const out = on.out == nullptr ? on.x : on.out;
  const RowShape shape{the.rows, turns(the.kind) ? the.heads.columns() : the.columns, kRowDType, queue};
  switch (the.kind) {
    case RowKind::norm:
    case RowKind::sum_norm: return rows.layer_norm(shape, on.x, on.y, {.scale = on.floats, .epsilon = 1e-6f}, out);
    case RowKind::rotate:
    case RowKind::rotate_normed: return rows.rotate(shape, heads_of(the, on), on.x, out);
    case RowKind::gate: return rows.gate(shape, on.x, Activation::silu, out);
    case RowKind::add: return rows.add(shape, on.x, {on.y, false}, Activation::none, out);
    case RowKind::copy_from:
    case RowKind::copy_to: break;
  }
  const bool from = the.kind == RowKind::copy_from;
  rows.copy({.rows = the.rows,
             .bytes = the.columns,
             .x = on.x,
             .out = out,
             .x_stride = the.columns,
             .out_stride = the.columns,
             .from = from ? on.places : std::span<const std::int32_t>{},
             .to = from ? std::span<const std::int32_t>{} : on.places,
             .queue = queue});
}

}  // namespace stof
