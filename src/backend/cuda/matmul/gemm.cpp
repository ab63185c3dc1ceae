// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/matmul/gemm.h"

#include <algorithm>
#include <cstring>

#include "kernels/shared/gemm.h"
#include "src/backend/cuda/driver/tensor_map.h"
#include "src/backend/cuda/matmul/instances.h"
#include "src/base/error.h"
#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

static_assert(cuda::kMomentColumns == stof::kMomentColumns);

constexpr int kBoxColumns = 64;

struct Matrix {
  const Gpu& gpu;
  std::string_view name;
  const void* base;
  std::int64_t rows, columns;
  int box_rows, box_columns = kBoxColumns;
};

// What spreads the pieces of a box of so many columns over the banks.
TensorSwizzle swizzle_of(int box_columns) {
  switch (box_columns) {
    case 64: return TensorSwizzle::bytes_128;
    case 32: return TensorSwizzle::bytes_64;
    case 16: return TensorSwizzle::bytes_32;
    default: return TensorSwizzle::none;
  }
}

TensorMapBytes map_of(const Matrix& matrix, DType dtype) {
  const CurrentGpu current(matrix.gpu);
  return encode({.name = matrix.name,
                 .element = dtype == DType::f16 ? TensorElement::f16 : TensorElement::bf16,
                 .base = matrix.base,
                 .sizes = {matrix.columns, matrix.rows, 1, 1, 1},
                 .strides = {matrix.columns, 0, 0, 0},
                 .box = {matrix.box_columns, matrix.box_rows, 1, 1, 1},
                 .swizzle = swizzle_of(matrix.box_columns),
                 .rank = 2});
}

void put(TensorMap& to, const TensorMapBytes& from) {
  static_assert(sizeof to == sizeof from);
  std::memcpy(&to, &from, sizeof to);
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

CacheUseCode code_of(CacheUse use) {
  switch (use) {
    case CacheUse::unknown: return kUnknownUse;
    case CacheUse::once: return kReadOnce;
    case CacheUse::again: return kReadAgain;
  }
  return kUnknownUse;
}

// Of many rows, whose loads would wait behind it, none: on an H200 128 rows gain 3.7 % of a BERT-base, 1,024 0 to 2.4 %
// of a GPT-2, and 4,096 nothing (bench/results/h200-cache-use.txt). Nor of a weight that would push out what is at
// hand: those measured have up to 5 MB, the L2 50.
int lines_to_ask_for(const LinearCall& call) {
  constexpr std::int64_t kMostRows = 1024;
  constexpr std::size_t kMostBytes = std::size_t{16} << 20, kLine = 128;
  const std::size_t bytes = call.next_weight.size();
  return call.rows > kMostRows || bytes > kMostBytes ? 0 : static_cast<int>((bytes + kLine - 1) / kLine);
}

int cluster_of(const MatmulSetting& setting) { return setting.split * setting.share; }

}  // namespace

unsigned inverse_of(std::int64_t width) {
  return width == 1 ? 0 : static_cast<unsigned>(ceil_div(std::int64_t{1} << 32, width));
}

const InstanceKernel& kernel_of(const GemmLinear& linear, const MatmulSetting& setting, std::string_view entry) {
  const GemmInstance instance = instance_of(linear.problem, setting);
  return instance_kernel(linear.gpu, KernelUnit{name_of(instance), source_of(instance)}, entry);
}

GemmParams params_of(const GemmLinear& linear, const LinearCall& call, const MatmulSetting& setting) {
  const MatmulProblem& problem = linear.problem;
  const std::int64_t across = ceil_div(problem.columns, setting.columns);
  STOF_CHECK(ceil_div(call.rows, setting.rows) * across < std::int64_t{1} << 28);
  STOF_CHECK((!problem.x_norm || call.x_moments != nullptr) && (!problem.moments || call.moments != nullptr));
  STOF_CHECK(!problem.residual || call.residual != nullptr);
  STOF_CHECK(!problem.residual_norm || call.residual_moments != nullptr);
  STOF_CHECK(problem.turned.heads == 0 || (call.angles != nullptr && std::ssize(call.positions) >= call.rows));
  return {.rows = narrow<int>(call.rows, "rows"),
          .columns = narrow<int>(problem.columns, "columns"),
          .inner = narrow<int>(problem.inner, "in"),
          .tile_base = 0,
          .tile_sign = 1,
          .out_use = code_of(call.out_use),
          .next_lines = lines_to_ask_for(call),
          .next_lines_each = 0,
          .section_inverse = inverse_of(kGemmSection),
          .last_inverse = inverse_of((across - 1) % kGemmSection + 1),
          .bias = linear.weights.exact_bias.as<float>(),
          .column_sum = linear.weights.matrix->column_sum.as<float>(),
          .scale = linear.weights.scale.as<float>(),
          .shift = linear.weights.shift.as<float>(),
          .x_moments = call.x_moments,
          .residual_moments = call.residual_moments,
          .moments = call.moments,
          .x_epsilon = linear.x_epsilon,
          .residual_epsilon = linear.residual_epsilon,
          .angles = call.angles,
          .positions = call.positions.data(),
          .turned = narrow<int>(problem.turned.heads * problem.turned.head_dim, "columns of heads"),
          .head_mask = narrow<int>(problem.turned.head_dim - 1, "head_dim"),
          .residual = call.residual,
          .out = call.out,
          .next_weight = call.next_weight.data()};
}

GemmLaunch::GemmLaunch(const GemmLinear& linear, const MatmulSetting& setting)
    : setting_(setting),
      kernel_(kernel_of(linear, setting, kGemmEntry)),
      weight_(map_of({linear.gpu, "the weight", linear.weights.matrix->values.as<void>(), linear.problem.columns,
                      linear.problem.inner, setting.columns / setting.share},
                     linear.problem.dtype)),
      clusters_(std::int64_t{linear.gpu.caps.cores} * kernel_.kernel.blocks_per_multiprocessor() /
                cluster_of(setting)) {
  STOF_CHECK(clusters_ > 0);
}

// The kernel reads as much of them as its tile needs.
GemmNarrowMaps GemmLaunch::maps_of(const GemmLinear& linear, const LinearCall& call) const {
  const MatmulProblem& problem = linear.problem;
  GemmNarrowMaps maps{};
  put(maps.x, map_of({linear.gpu, "x", call.x, call.rows, problem.inner, setting_.rows}, problem.dtype));
  put(maps.w, weight_);
  const auto put_boxes = [&](TensorMap& out, TensorMap& residual, int columns) {
    Matrix matrix{linear.gpu, "out", call.out, call.rows, problem.out_columns(), setting_.rows, columns};
    put(out, map_of(matrix, problem.dtype));
    if (!problem.residual) return;
    matrix.name = "the residual", matrix.base = call.residual;
    put(residual, map_of(matrix, problem.dtype));
  };
  put_boxes(maps.out, maps.residual, kBoxColumns);
  const int tile_columns = problem.gate ? setting_.columns / 2 : setting_.columns;
  for (std::size_t i = 0; i < std::size(maps.narrow_out); ++i)
    if (const int columns = kBoxColumns >> (i + 1); (tile_columns & columns) != 0)
      put_boxes(maps.narrow_out[i], maps.narrow_residual[i], columns);
  return maps;
}

void GemmLaunch::run(const GemmLinear& linear, const LinearCall& call) const {
  GemmParams params = params_of(linear, call, setting_);
  GemmNarrowMaps maps = maps_of(linear, call);
  const std::int64_t tiles =
      ceil_div(call.rows, setting_.rows * setting_.share) * ceil_div(linear.problem.columns, setting_.columns);
  // CTAs that share the inner dimension have one tile each.
  const std::int64_t clusters = setting_.split > 1 ? tiles : std::min(tiles, clusters_);
  const std::int64_t ctas = clusters * cluster_of(setting_);
  params.next_lines_each = static_cast<int>(ceil_div(params.next_lines, ctas));
  if (call.queue.backwards) params.tile_base = static_cast<int>(tiles - 1), params.tile_sign = -1;
  void* arguments[] = {&maps, &params};
  kernel_.kernel.launch({.grid = {.x = narrow<unsigned>(ctas, "CTAs")},
                         .stream = static_cast<StreamHandle>(call.queue.stream),
                         .cluster = static_cast<unsigned>(cluster_of(setting_)),
                         .overlap_previous = true},
                        arguments);
}

}  // namespace stof::cuda
