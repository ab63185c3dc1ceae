// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/rows.h"

#include <algorithm>

#include "src/backend/cuda/matmul/activation_code.h"
#include "src/backend/cuda/rows/launch.h"
#include "src/backend/cuda/rows/rotate.h"
#include "src/base/error.h"
#include "stof/session.h"

namespace stof::cuda {
namespace {

// The grid's second dimension: CTAs that have so many columns of a row each.
unsigned blocks_across(std::int64_t columns, std::int64_t of_block) {
  constexpr std::int64_t kMost = 65535;
  if (columns > kMost * of_block)
    fail(ErrorKind::unsupported, "rows of {} columns on CUDA; accepted: at most {}", columns, kMost * of_block);
  return ceil_div(columns, of_block);
}

struct MostOf {
  int columns, sources;
};

bool takes_vectors(const SumNormParams& params, DType dtype, MostOf most) {
  bool takes = params.columns % vector_of(dtype) == 0 && params.columns <= most.columns &&
               params.count <= most.sources && aligned(params.out) && aligned(params.scale) && aligned(params.shift) &&
               aligned(params.added);
  for (int s = 0; s < params.count; ++s) takes = takes && aligned(params.sources[s].base);
  return takes;
}
bool takes_warps(const SumNormParams& params, DType dtype) {
  return takes_vectors(params, dtype, {.columns = SumNormParams::kMostInWarp, .sources = 3});
}

// Rows as they lie, in 16 bits: by warps that stay.
bool takes_rows(const SumNormParams& params, DType dtype) {
  return dtype != DType::f32 && params.sources[0].indices == nullptr && params.scale != nullptr &&
         params.added == nullptr && RowNormGrid::takes(params.rows, params.columns, params.shift == nullptr) &&
         takes_vectors(params, dtype, {.columns = params.columns, .sources = 1});
}

void row_norm(const RowShape& shape, const SumNormParams& params) {
  constexpr int kColumns = RowNormGrid::kVectorColumns;
  const int vectors = (params.columns + kColumns - 1) / kColumns;
  const bool rms = params.shift == nullptr;
  const int ctas = (rms ? RowNormGrid::kRmsCtas : RowNormGrid::kCtas)[vectors];
  const unsigned blocks = ceil_div(shape.rows, RowNormGrid::kWarps),
                 resident = static_cast<unsigned>(gpu_running(shape.queue).caps.cores * ctas);
  launch(shape.queue, {"row_norm", row_norm_entry(shape.dtype, vectors, rms), RowNormGrid::kWarps * 32},
         {.x = std::min(blocks, resident)}, params);
}

RmsNormCta rms_norm_cta(int columns, DType dtype) {
  return *std::ranges::find_if(RmsNormGrid::kCtas, [&](const RmsNormCta& cta) {
    return cta.threads * cta.vectors * vector_of(dtype) >= columns;
  });
}

void rms_norm(const RowShape& shape, const SumNormParams& params, bool follows_kernel) {
  KernelName name{"rms_norm", wide_rms_norm_entry(shape.dtype), SumNormGrid::kWideThreads, follows_kernel};
  if (takes_vectors(params, shape.dtype, {RmsNormGrid::kMostColumns, RmsNormGrid::kMostSources})) {
    const RmsNormCta cta = rms_norm_cta(params.columns, shape.dtype);
    name.entry = rms_norm_entry(shape.dtype, cta, params.added != nullptr ? RmsNormGrid::kAdded : params.count);
    name.threads = static_cast<unsigned>(cta.threads);
  }
  launch(shape.queue, name, {.x = static_cast<unsigned>(params.rows)}, params);
}

void sum_norm(const RowShape& shape, SumNormParams params, const NormWeights* norm, void* out) {
  params.out = out;
  params.columns = narrow<int>(shape.columns, "columns");
  params.rows = narrow<int>(shape.rows, "rows");
  params.backwards = shape.queue.backwards ? 1 : 0;
  if (norm != nullptr) params.scale = norm->scale, params.shift = norm->shift, params.epsilon = norm->epsilon;
  if (shape.rows == 0 || shape.columns == 0) return;
  const bool follows_kernel = params.sources[0].indices == nullptr;  // indices come by a copy
  if (takes_rows(params, shape.dtype)) row_norm(shape, params);
  else if (norm != nullptr && norm->shift == nullptr) rms_norm(shape, params, follows_kernel);
  else if (takes_warps(params, shape.dtype))
    launch(shape.queue,
           {"sum_norm", sum_norm_entry(shape.dtype, params.count), 32 * SumNormGrid::kWarps, follows_kernel},
           {.x = ceil_div(shape.rows, SumNormGrid::kWarps)}, params);
  else
    launch(shape.queue, {"sum_norm", sum_norm_entry(shape.dtype, 0), SumNormGrid::kWideThreads, follows_kernel},
           {.x = static_cast<unsigned>(params.rows)}, params);
}

void lookup(const RowShape& shape, std::span<const LookupTable> tables, const NormWeights* norm, void* out) {
  STOF_CHECK(!tables.empty() && tables.size() <= SumNormParams::kMostSources);
  SumNormParams params{};
  for (const LookupTable& table : tables) {
    STOF_CHECK(table.table.dtype == shape.dtype);
    params.sources[params.count++] = {table.table.data, table.indices.data()};
  }
  sum_norm(shape, params, norm, out);
}

void layer_norm(const RowShape& shape, const void* x, const void* residual, const NormWeights& norm, void* out) {
  SumNormParams params{};
  params.sources[params.count++] = {x, nullptr};
  if (residual != nullptr) params.sources[params.count++] = {residual, nullptr};
  sum_norm(shape, params, &norm, out);
}

void norm_add(const RowShape& shape, const void* x, const NormWeights& norm, const void* y, void* out) {
  STOF_CHECK(norm.shift == nullptr);
  SumNormParams params{};
  params.sources[params.count++] = {x, nullptr};
  params.added = y;
  sum_norm(shape, params, &norm, out);
}

void add(const RowShape& shape, const void* x, const Addend& y, Activation activation, void* out) {
  const AddParams params{.x = x,
                         .y = y.is_bias ? nullptr : y.data,
                         .bias = y.is_bias ? static_cast<const float*>(y.data) : nullptr,
                         .out = out,
                         .activation = code_of(activation),
                         .columns = narrow<int>(shape.columns, "columns"),
                         .rows = narrow<int>(shape.rows, "rows")};
  if (shape.rows == 0 || shape.columns == 0) return;
  const int vector = vector_of(shape.dtype);
  const bool vectors = params.columns % vector == 0 && aligned(x) && aligned(params.y) && aligned(out);
  const Dimensions grid{.x = ceil_div(shape.rows, vectors ? AddGrid::kRows : 1),
                        .y = blocks_across(shape.columns, std::int64_t{AddGrid::kThreads} * (vectors ? vector : 1))};
  launch(shape.queue, {"add_rows", add_rows_entry(shape.dtype, vectors), AddGrid::kThreads}, grid, params);
}

void gate(const RowShape& shape, const void* x, Activation activation, void* out) {
  const GateParams params{.x = x,
                          .out = out,
                          .activation = code_of(activation),
                          .columns = narrow<int>(shape.columns, "columns"),
                          .rows = narrow<int>(shape.rows, "rows")};
  const int vector = vector_of(shape.dtype);
  const bool vectors = shape.columns % vector == 0 && aligned(x) && aligned(out);
  launch_halves(shape, gate_entry(shape.dtype, vectors), shape.columns / (vectors ? vector : 1), params);
}

// Of the pieces that rows are copied in, the largest that everything is a multiple of.
int piece_of(const RowCopies& copies) {
  const std::uint64_t all = reinterpret_cast<std::uintptr_t>(copies.x) | reinterpret_cast<std::uintptr_t>(copies.out) |
                            static_cast<std::uint64_t>(copies.bytes | copies.x_stride | copies.out_stride);
  return all % 16 == 0 ? 16 : all % 4 == 0 ? 4 : all % 2 == 0 ? 2 : 1;
}

void copy(const RowCopies& copies) {
  if (copies.rows == 0 || copies.bytes == 0) return;
  constexpr int kThreads = CopyRowsGrid::kThreads;
  const int piece = piece_of(copies), of_row = narrow<int>(copies.bytes / piece, "bytes of a row"),
            pieces = narrow<int>(std::int64_t{of_row} * copies.rows, "rows * pieces of a row");
  const CopyRowsParams params{.x = static_cast<const char*>(copies.x),
                              .out = static_cast<char*>(copies.out),
                              .from = copies.from.empty() ? nullptr : copies.from.data(),
                              .to = copies.to.empty() ? nullptr : copies.to.data(),
                              .x_stride = copies.x_stride,
                              .out_stride = copies.out_stride,
                              .of_row = static_cast<unsigned>(of_row),
                              .pieces = static_cast<unsigned>(pieces)};
  const unsigned one_each = ceil_div(pieces, kThreads), fewest = ceil_div(pieces, kThreads * CopyRowsGrid::kPieces);
  const auto cores = static_cast<unsigned>(gpu_running(copies.queue).caps.cores);
  launch(copies.queue, {"copy_rows", copy_rows_entry(piece), kThreads},
         {.x = std::max(fewest, std::min(one_each, cores))}, params);
}

int pooling_kind(Pooling pooling) {
  switch (pooling) {
    case Pooling::cls: return PoolParams::kFirst;
    case Pooling::last: return PoolParams::kLast;
    case Pooling::mean: return PoolParams::kMean;
    case Pooling::max: return PoolParams::kMax;
    case Pooling::none: break;
  }
  bug("a pooling that is none", __FILE__, __LINE__);
}

void pool(const PoolCall& call) {
  STOF_CHECK(call.pooling != Pooling::none && call.starts.size() == call.lengths.size());
  const int columns = narrow<int>(call.rows.columns, "columns"), texts = narrow<int>(call.starts.size(), "texts");
  if (texts == 0 || columns == 0) return;
  const PoolParams params{.rows = call.hidden,
                          .starts = call.starts.data(),
                          .lengths = call.lengths.data(),
                          .out = call.out,
                          .kind = pooling_kind(call.pooling),
                          .columns = columns};
  launch(call.rows.queue, {"pool_rows", pool_rows_entry(call.rows.dtype), PoolGrid::kThreads},
         {.x = static_cast<unsigned>(texts), .y = blocks_across(columns, PoolGrid::kColumns)}, params);
  if (call.normalize)
    launch(call.rows.queue, {"pool_rows", std::string(kNormalizeEntry), PoolGrid::kThreads},
           {.x = static_cast<unsigned>(texts)}, NormalizeParams{.rows = call.out, .columns = columns});
}

// CTAs that share a row: as many as leave several for each SM, and each thread something to do.
std::int64_t parts_of_row(const RowShape& shape, std::int64_t pieces) {
  const std::int64_t wanted = std::int64_t{gpu_running(shape.queue).caps.cores} * HighestGrid::kCtas / shape.rows;
  const std::int64_t useful = (pieces + HighestGrid::kThreads - 1) / HighestGrid::kThreads;
  const std::size_t room = shape.queue.workspace == nullptr ? 0 : shape.queue.workspace_bytes;
  const std::int64_t kept = static_cast<std::int64_t>(room / sizeof(unsigned long long)) / shape.rows;
  return std::max<std::int64_t>(1, std::min({wanted, useful, kept}));
}

void highest(const RowShape& shape, const void* x, std::int32_t* out) {
  const HighestParams params{.x = x,
                             .parts = static_cast<unsigned long long*>(shape.queue.workspace),
                             .out = out,
                             .columns = narrow<int>(shape.columns, "columns")};
  STOF_CHECK(params.columns > 0);
  if (shape.rows == 0) return;
  const int vector = vector_of(shape.dtype);
  const bool vectors = params.columns % vector == 0 && aligned(x);
  const std::int64_t parts = parts_of_row(shape, shape.columns / (vectors ? vector : 1));
  launch(shape.queue, {"highest", highest_entry(shape.dtype, vectors), HighestGrid::kThreads},
         {.x = narrow<unsigned>(shape.rows, "rows"), .y = static_cast<unsigned>(parts)}, params);
  if (parts == 1) return;
  launch(shape.queue, {"highest", std::string(kMergeHighestEntry), 32 * HighestGrid::kMergedRows},
         {.x = ceil_div(shape.rows, HighestGrid::kMergedRows)},
         MergeHighestParams{.parts = params.parts,
                            .out = out,
                            .rows = narrow<int>(shape.rows, "rows"),
                            .count = static_cast<int>(parts)});
}

}  // namespace

std::string_view storage_of(DType dtype) {
  STOF_CHECK(dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16);
  return dtype == DType::f32 ? "6Single" : dtype == DType::f16 ? "10StoredHalf" : "12StoredBfloat";
}

void prepare_add(const Gpu& gpu, DType dtype) {
  for (const bool vectors : {false, true})
    plain_kernel(gpu, "add_rows", add_rows_entry(dtype, vectors), AddGrid::kThreads);
}

std::string sum_norm_entry(DType dtype, int sources) {
  if (sources == 0)
    return fmt::format("_ZN4stof4cuda20wide_sum_norm_kernelINS0_{}EEEvNS0_13SumNormParamsE", storage_of(dtype));
  return fmt::format("_ZN4stof4cuda15sum_norm_kernelINS0_{}ELi{}EEEvNS0_13SumNormParamsE", storage_of(dtype), sources);
}

std::string row_norm_entry(DType dtype, int vectors, bool rms) {
  return fmt::format("_ZN4stof4cuda15row_norm_kernelINS0_{}ELi{}ELb{:d}EEEvNS0_13SumNormParamsE", storage_of(dtype),
                     vectors, rms);
}

std::string rms_norm_entry(DType dtype, RmsNormCta cta, int form) {
  return fmt::format("_ZN4stof4cuda15rms_norm_kernelINS0_{}ELi{}ELi{}ELi{}EEEvNS0_13SumNormParamsE", storage_of(dtype),
                     cta.threads, cta.vectors, form);
}

std::string wide_rms_norm_entry(DType dtype) {
  return fmt::format("_ZN4stof4cuda20wide_rms_norm_kernelINS0_{}EEEvNS0_13SumNormParamsE", storage_of(dtype));
}

std::string add_rows_entry(DType dtype, bool vectors) {
  return fmt::format("_ZN4stof4cuda{}INS0_{}EEEvNS0_9AddParamsE",
                     vectors ? "15add_rows_kernel" : "19add_any_rows_kernel", storage_of(dtype));
}

std::string gate_entry(DType dtype, bool vectors) {
  return fmt::format("_ZN4stof4cuda11gate_kernelINS0_{}ELb{:d}EEEvNS0_10GateParamsE", storage_of(dtype), vectors);
}

std::string pool_rows_entry(DType dtype) {
  return fmt::format("_ZN4stof4cuda16pool_rows_kernelINS0_{}EEEvNS0_10PoolParamsE", storage_of(dtype));
}

std::string copy_rows_entry(int piece_bytes) {
  const char* const word = piece_bytes == 16 ? "5uint4" : piece_bytes == 4 ? "j" : piece_bytes == 2 ? "t" : "h";
  return fmt::format("_ZN4stof4cuda16copy_rows_kernelI{}EEvNS0_14CopyRowsParamsE", word);
}

std::string highest_entry(DType dtype, bool vectors) {
  return fmt::format("_ZN4stof4cuda14highest_kernelINS0_{}ELb{:d}EEEvNS0_13HighestParamsE", storage_of(dtype), vectors);
}

const RowOperations row_operations{.lookup = lookup,
                                   .layer_norm = layer_norm,
                                   .norm_add = norm_add,
                                   .add = add,
                                   .rotate = rotate,
                                   .gate = gate,
                                   .copy = copy,
                                   .pool = pool,
                                   .highest = highest};

}  // namespace stof::cuda
