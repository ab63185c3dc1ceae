// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/matmul/settings.h"

#include <algorithm>
#include <array>

#include "kernels/shared/gemv.h"
#include "src/base/error.h"

namespace stof::cuda {
namespace {

using Kernel = MatmulSetting::Kernel;

constexpr int kDepth = 64;                        // 128 bytes: a swizzled row
constexpr std::int64_t kSharedOfSm = 228 * 1024;  // of which a CTA may have 227 and costs 1 more
constexpr std::int64_t kBarrierBytes = 2 * 1024;  // and what rounding up to 1024 adds

struct Tile {
  int rows, columns, stages, warpgroups, teams, least_split, most_split, most_share;
};
// Widths between the powers of two make one wave of tiles over all SMs where those leave some idle: 512 rows of 2304
// columns are 128 tiles of 128x72. What each gains: docs/kernels/gemm.md.
constexpr std::array<Tile, 20> kTiles{
    {{64, 48, 7, 1, 1, 1, 1, 1},   {64, 64, 6, 1, 1, 1, 1, 1},   {64, 64, 4, 1, 1, 2, 4, 1},
     {64, 64, 8, 1, 1, 4, 4, 1},   {64, 96, 8, 1, 1, 1, 1, 2},   {64, 96, 8, 1, 1, 4, 4, 1},
     {64, 128, 8, 1, 1, 1, 1, 1},  {64, 128, 3, 1, 1, 2, 4, 1},  {64, 192, 6, 1, 1, 1, 1, 1},
     {128, 64, 8, 2, 1, 1, 1, 2},  {128, 64, 3, 2, 1, 2, 8, 1},  {128, 72, 7, 2, 1, 1, 1, 1},
     {128, 96, 6, 2, 1, 1, 1, 2},  {128, 128, 5, 2, 1, 1, 1, 1}, {128, 128, 4, 2, 1, 2, 8, 1},
     {128, 128, 5, 1, 2, 1, 1, 2}, {128, 144, 5, 2, 1, 1, 1, 2}, {128, 192, 4, 2, 1, 1, 1, 2},
     {128, 192, 4, 1, 2, 1, 1, 2}, {128, 256, 3, 2, 1, 1, 1, 2}}};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Boxes of 64 columns are of one head, and a column's place in its head is found by a mask.
std::optional<std::string> turning_refusal(const MatmulProblem& problem, std::string_view kernel) {
  const auto [heads, head_dim] = problem.turned;
  if (heads == 0) return std::nullopt;
  if (head_dim < 64 || (head_dim & (head_dim - 1)) != 0)
    return fmt::format("{} turns heads of 64, 128, 256, ... columns, not {}", kernel, head_dim);
  if (heads * head_dim > problem.columns)
    return fmt::format("{} heads of {} columns are more than the product's {}", heads, head_dim, problem.columns);
  if (problem.gate || problem.residual || problem.moments || problem.activation != Activation::none)
    return fmt::format("{} has nothing after heads that are turned: no gate, activation, residual, moments", kernel);
  return std::nullopt;
}

// By the rules of both kernels.
std::optional<std::string> operands_refusal(const MatmulProblem& problem, std::string_view kernel) {
  if (problem.dtype != DType::f16 && problem.dtype != DType::bf16)
    return fmt::format("{} multiplies f16 and bf16, not {}", kernel, name_of(problem.dtype));
  for (const auto& [name, size] : {std::pair("in", problem.inner), std::pair("out", problem.out_columns())})
    if (size < 8 || size % 8 != 0)
      return fmt::format("{} takes multiples of 8 from 8 on; {} is {}", kernel, name, size);
  if (problem.activation == Activation::tanh) return fmt::format("{} has no tanh after a product", kernel);
  if (problem.gate && (problem.residual || problem.moments))
    return fmt::format("{} has nothing after the product of a gate: no residual, no moments", kernel);
  return turning_refusal(problem, kernel);
}

std::string capability_refusal(const DeviceCaps& device, std::string_view needs) {
  return fmt::format("{}; {} has {}.{}", needs, device.name, device.arch / 10, device.arch % 10);
}

std::optional<std::string> absence(const std::vector<MatmulSetting>& all, const MatmulSetting& setting) {
  if (std::find(all.begin(), all.end(), setting) != all.end()) return std::nullopt;
  return fmt::format("there is no kernel for '{}'", text_of(setting));
}

// By all other kernels.
std::optional<std::string> few_rows_refusal(const MatmulProblem& problem, std::string_view kernel) {
  if (!problem.few_rows && !problem.own_norm) return std::nullopt;
  return fmt::format("{} takes no matmul that is for few rows alone", kernel);
}

std::optional<std::string> mma_refuses(const MatmulProblem& problem, const DeviceCaps& device,
                                       const MatmulSetting& setting) {
  if (device.arch < 80) return capability_refusal(device, "mma needs compute capability 8.0");
  if (auto why_not = operands_refusal(problem, "mma")) return why_not;
  if (auto why_not = few_rows_refusal(problem, "mma")) return why_not;
  return absence(mma_settings(), setting);
}

bool deferred(const MatmulProblem& problem) { return problem.x_norm || problem.residual_norm || problem.moments; }

// That a CTA may have, by compute capability.
std::int64_t shared_limit(int arch) {
  return (arch == 80 || arch == 87 ? 163 : arch < 90 || arch >= 120 ? 99 : 227) * 1024 - GemvGrid::kStaticBytes;
}

std::optional<std::string> gemv_refuses(const MatmulProblem& problem, const DeviceCaps& device,
                                        const MatmulSetting& setting) {
  if (device.arch < 80) return capability_refusal(device, "gemv needs compute capability 8.0");
  if (problem.rows > GemvGrid::kMostRows)
    return fmt::format("gemv takes up to {} rows, not {}", GemvGrid::kMostRows, problem.rows);
  if (problem.rows * problem.inner > GemvGrid::kMostX)
    return fmt::format("gemv takes up to {} numbers of x, not {} rows of {}", GemvGrid::kMostX, problem.rows,
                       problem.inner);
  if (auto why_not = operands_refusal(problem, "gemv")) return why_not;
  if (deferred(problem)) return "gemv has no layer norm of operands by their moments, and no moments";
  if (problem.turned.heads > 0) return "gemv turns no heads";
  if (problem.gate && !problem.few_rows) return "gemv takes a gate of matmuls that are for few rows alone";
  if (auto why_not = absence(gemv_settings(), setting)) return why_not;
  if (problem.gate && setting.columns < 2 * GemvGrid::kTile)
    return fmt::format("'{}' does not hold a gate and what it lets through", text_of(setting));
  const std::int64_t bytes = gemv_shared_bytes(problem, setting), limit = shared_limit(device.arch);
  if (bytes <= limit) return std::nullopt;
  return fmt::format("'{}' keeps {} rows of {} in {} bytes of shared memory; {} has {}", text_of(setting), problem.rows,
                     problem.inner, bytes, device.name, limit);
}

std::optional<std::string> cublaslt_refuses(const MatmulProblem& problem) {
  if (auto why_not = few_rows_refusal(problem, "cublaslt")) return why_not;
  if (problem.inner < 1) return fmt::format("cublaslt takes an inner dimension from 1 on; in is {}", problem.inner);
  if (deferred(problem)) return "cublaslt has no layer norm of operands and no moments";
  if (problem.gate) return "cublaslt has no product of a gate with what it lets through";
  if (problem.turned.heads > 0) return "cublaslt turns no heads";
  if (problem.residual && problem.activation != Activation::none)
    return fmt::format("cublaslt has no matmul with both {} and a residual", name_of(problem.activation));
  return std::nullopt;
}

}  // namespace

MatmulProblem problem_of(const LinearSpec& spec, std::int64_t rows) {
  STOF_CHECK(!spec.weight.empty());
  MatmulProblem problem{.rows = rows,
                        .columns = 0,
                        .inner = spec.weight.front().dim(1),
                        .dtype = spec.dtype,
                        .activation = spec.activation,
                        .bias = !spec.bias.empty(),
                        .residual = spec.residual,
                        .x_norm = spec.x_norm.has_value(),
                        .residual_norm = spec.residual_norm.has_value(),
                        .moments = spec.moments,
                        .gate = spec.gate,
                        .few_rows = spec.few_rows,
                        .own_norm = spec.own_norm.has_value(),
                        .own_shift = spec.own_norm && spec.own_norm->shift,
                        .turned = spec.turned.value_or(TurnedHeads{})};
  for (const TensorView& part : spec.weight) problem.columns += part.dim(0);
  return problem;
}

std::int64_t shared_bytes_of(const MatmulSetting& setting) {
  const std::int64_t stage = std::int64_t{setting.rows + setting.columns} * setting.depth * 2;
  // The output in 16 bits, or the sums of all that share the tile in 32.
  const std::int64_t out = std::int64_t{setting.rows} * setting.columns * (setting.split > 1 ? 4 : 2);
  // Four vectors of columns and two pairs of each row that the CTA writes, of one tile or of two: the fullest epilogue.
  const std::int64_t facts = (setting.split > 1 ? 1 : 2) * 16 * (setting.columns + setting.rows / setting.split);
  return setting.stages * stage + out + facts + kBarrierBytes;
}

int most_ctas_of(const MatmulSetting& setting) {
  return static_cast<int>(kSharedOfSm / (shared_bytes_of(setting) + 1024));
}

int ctas_of(const MatmulSetting& setting) {
  const bool small = setting.warpgroups * setting.teams == 1 || setting.rows * setting.columns <= 128 * 64;
  return small && most_ctas_of(setting) >= 2 ? 2 : 1;
}

// Chunks, what warps have summed up, x, a norm's vectors, as gemv_kernel has them. Rows of x are zeros up to the end of
// a chunk, and 64 bytes apart: lanes of two rows find them in different banks.
std::int64_t gemv_shared_bytes(const MatmulProblem& problem, const MatmulSetting& setting) {
  const std::int64_t padded = ceil_div(problem.inner, GemvGrid::kChunk) * GemvGrid::kChunk,
                     slabs = problem.rows > GemvGrid::kSlabRows ? 2 : 1,
                     norm = problem.own_norm ? problem.inner * (problem.own_shift ? 8 : 4) : 0;
  return GemvGrid::kChunkBytes + problem.rows * (2 * padded + 64) + norm +
         std::int64_t{GemvGrid::kWarps} * setting.columns * slabs * GemvGrid::kSlabRows * 4;
}

int gemv_ctas(const MatmulProblem& problem, const MatmulSetting& setting) {
  const std::int64_t by_memory = kSharedOfSm / (gemv_shared_bytes(problem, setting) + 2 * GemvGrid::kStaticBytes);
  return static_cast<int>(std::clamp<std::int64_t>(by_memory, 1, GemvGrid::kCtas[setting.columns / GemvGrid::kTile]));
}

const std::vector<MatmulSetting>& wgmma_settings() {
  static const auto settings = [] {
    std::vector<MatmulSetting> all;
    for (const Tile& tile : kTiles)
      for (int split = tile.least_split; split <= tile.most_split; split *= 2)
        for (int share = 1; share <= tile.most_share; share *= 2)
          all.push_back({.kernel = Kernel::wgmma,
                         .rows = tile.rows,
                         .columns = tile.columns,
                         .depth = kDepth,
                         .stages = tile.stages,
                         .warpgroups = tile.warpgroups,
                         .teams = tile.teams,
                         .split = split,
                         .share = share});
    return all;
  }();
  return settings;
}

const std::vector<MatmulSetting>& mma_settings() {
  static const auto settings = [] {
    std::vector<MatmulSetting> all;
    for (const auto& [rows, columns] : {std::pair(64, 64), std::pair(128, 64), std::pair(128, 128)})
      all.push_back({.kernel = Kernel::mma,
                     .rows = rows,
                     .columns = columns,
                     .depth = 32,
                     .stages = 4,
                     .warpgroups = rows / 32 * (columns / 64),
                     .teams = 1,
                     .split = 1});
    return all;
  }();
  return settings;
}

const std::vector<MatmulSetting>& gemv_settings() {
  static const auto settings = [] {
    std::vector<MatmulSetting> all;
    for (int tiles = 1; tiles <= GemvGrid::kMostTiles; tiles *= 2)
      all.push_back({.kernel = Kernel::gemv, .columns = tiles * GemvGrid::kTile});
    return all;
  }();
  return settings;
}

std::optional<MatmulSetting> best_gemv(const MatmulProblem& problem, const DeviceCaps& device) {
  std::optional<MatmulSetting> best;
  for (const MatmulSetting& setting : gemv_settings())
    if (!refuses(problem, device, setting) &&
        (!best || predicted_us(problem, device, setting) < predicted_us(problem, device, *best)))
      best = setting;
  return best;
}

bool is_listed(const MatmulSetting& setting) { return setting.kernel != Kernel::mma; }

std::optional<std::string> refuses(const MatmulProblem& problem, const DeviceCaps& device,
                                   const MatmulSetting& setting) {
  if (setting.kernel == Kernel::cublaslt) return cublaslt_refuses(problem);
  if (setting.kernel == Kernel::mma) return mma_refuses(problem, device, setting);
  if (setting.kernel == Kernel::gemv) return gemv_refuses(problem, device, setting);
  if (device.arch != 90) return capability_refusal(device, "wgmma needs compute capability 9.0");
  if (auto why_not = operands_refusal(problem, "wgmma")) return why_not;
  if (auto why_not = few_rows_refusal(problem, "wgmma")) return why_not;
  if (auto why_not = absence(wgmma_settings(), setting)) return why_not;
  if (problem.gate && (setting.split > 1 || setting.columns % 16 != 0))
    return fmt::format("the tiles of '{}' do not hold a gate and what it lets through", text_of(setting));
  if (problem.moments && setting.columns % kMomentColumns != 0)
    return fmt::format("moments are of {} columns, which the tiles of '{}' cut", kMomentColumns, text_of(setting));
  if (const std::int64_t steps = ceil_div(problem.inner, setting.depth); setting.split > steps)
    return fmt::format("{} CTAs cannot share the {} steps of {} values", setting.split, steps, problem.inner);
  return std::nullopt;
}

std::string refusals_of(const MatmulProblem& problem, const DeviceCaps& device) {
  std::string lines;
  std::vector<MatmulSetting> some{{}, wgmma_settings().front()};
  if (problem.few_rows) some = {gemv_settings().back()};
  for (const MatmulSetting& setting : some)
    if (const auto why_not = refuses(problem, device, setting)) lines += "\n  " + *why_not;
  return lines;
}

namespace {

const std::vector<MatmulSetting>& listed_settings() {
  static const auto settings = [] {
    std::vector<MatmulSetting> all = wgmma_settings();
    for (const auto* more : {&mma_settings(), &gemv_settings()}) all.insert(all.end(), more->begin(), more->end());
    all.push_back({});
    std::erase_if(all, [](const MatmulSetting& setting) { return !is_listed(setting); });
    return all;
  }();
  return settings;
}

}  // namespace

bool any_takes(const MatmulProblem& problem, const DeviceCaps& device) {
  return std::ranges::any_of(listed_settings(),
                             [&](const MatmulSetting& setting) { return !refuses(problem, device, setting); });
}

std::vector<MatmulChoice> settings_of(const MatmulProblem& problem, const DeviceCaps& device) {
  std::vector<MatmulChoice> choices;
  for (const MatmulSetting& setting : listed_settings())
    if (!refuses(problem, device, setting)) choices.push_back({setting, predicted_us(problem, device, setting)});
  std::stable_sort(choices.begin(), choices.end(),
                   [](const MatmulChoice& a, const MatmulChoice& b) { return a.predicted_us < b.predicted_us; });
  return choices;
}

}  // namespace stof::cuda
