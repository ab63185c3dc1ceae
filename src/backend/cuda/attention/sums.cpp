// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/sums.h"

#include <fmt/format.h>

#include "kernels/shared/two_results.h"
#include "src/backend/cuda/attention/call_pieces.h"
#include "src/backend/cuda/attention/kernel_store.h"
#include "src/backend/cuda/attention/workspace.h"
#include "src/backend/cuda/driver/device.h"
#include "src/backend/cuda/memory.h"
#include "src/backend/cuda/rows.h"
#include "src/backend/two_results.h"
#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

std::size_t out_bytes(const AttentionShape& shape) {
  return (result_rows(shape) * static_cast<std::size_t>(shape.head_dim) * size_of(shape.dtype) + 15) / 16 * 16;
}

// The second result and both logarithms; nothing is counted in it.
WorkspaceSize size_of_room(const AttentionShape& shape) {
  return {.partials = out_bytes(shape) / sizeof(float), .lse = 2 * ((result_rows(shape) + 3) / 4 * 4)};
}

struct Room {
  Room(const Gpu& the_gpu, const AttentionShape& shape)
      : gpu(the_gpu),
        memory(gpu, size_of_room(shape)),
        by_vectors(kernel(shape.dtype, true)),
        by_elements(kernel(shape.dtype, false)) {}

  const Kernel& kernel(DType dtype, bool vectors) const {
    return plain_kernel(gpu, "add_results", add_results_entry(dtype, vectors), AddResultsGrid::kThreads);
  }

  const Gpu& gpu;
  mutable WorkspacePool memory;
  const Kernel &by_vectors, &by_elements;
};

ResultPlaces places_of(const AttentionCall& call, std::int64_t AttentionItem::*at, const AttentionStrides& strides) {
  const std::int64_t step = call.items.size() > 1 ? call.items[1].*at - call.items[0].*at : 0;
  return {step, strides.head, strides.row};
}

bool takes_vectors(const AddResultsParams& params, std::int64_t of_vector) {
  const auto even = [&](const ResultPlaces& at) {
    return at.item % of_vector == 0 && at.head % of_vector == 0 && at.row % of_vector == 0;
  };
  return params.head_dim % of_vector == 0 && even(params.out_at) && even(params.other_out_at) &&
         reinterpret_cast<std::uintptr_t>(params.out) % 16 == 0;
}

void add(const Room& room, const AttentionCall& call, const TwoResults& results) {
  const std::int64_t element = static_cast<std::int64_t>(size_of(call.dtype));
  const AttentionItem& item = call.items.front();
  AddResultsParams params{.out = static_cast<std::byte*>(call.out) + item.out * element,
                          .other_out = results.second.out,
                          .lse = results.first.lse,
                          .other_lse = results.second.lse,
                          .both_lse = call.lse == nullptr ? nullptr : call.lse + item.lse,
                          .out_at = places_of(call, &AttentionItem::out, call.out_strides),
                          .other_out_at = places_of(results.second, &AttentionItem::out, results.second.out_strides),
                          .lse_at = places_of(results.first, &AttentionItem::lse, results.first.lse_strides),
                          .other_lse_at = places_of(results.second, &AttentionItem::lse, results.second.lse_strides),
                          .both_lse_at = places_of(call, &AttentionItem::lse, call.lse_strides),
                          .rows = narrow<int>(item.queries, "queries"),
                          .head_dim = narrow<int>(call.head_dim, "head_dim")};
  const std::int64_t of_vector = 16 / element;
  const bool vectors = takes_vectors(params, of_vector);
  const std::int64_t pieces = item.queries * (call.head_dim / (vectors ? of_vector : 1));
  void* arguments[] = {&params};
  (vectors ? room.by_vectors : room.by_elements)
      .launch({.grid = {narrow<unsigned>((pieces + AddResultsGrid::kThreads - 1) / AddResultsGrid::kThreads, "blocks"),
                        narrow<unsigned>(call.heads, "heads"), narrow<unsigned>(call.items.size(), "items")},
               .stream = static_cast<StreamHandle>(call.stream),
               .overlap_previous = room.gpu.caps.arch >= 90},
              arguments);
}

// Both results are read and one is written, at what an H200 took besides the two calls for (4,12,4096,64): 22 us
// (docs/kernels/attention-log.md).
double predicted_us(const AttentionShape& shape, const DeviceCaps&) {
  constexpr double kLaunchUs = 3, kBytesPerUs = 3.8e6;
  return kLaunchUs + 3 * result_bytes(shape) / kBytesPerUs;
}

Refusal refuses(const AttentionShape& shape) {
  // q and out of such a call take twice as much, keys and values up to twice as much again.
  constexpr double kMostResultBytes = 4e9;
  if (Refusal why = refuses_result(shape, kMostResultBytes)) return why;
  if (shape.batch > kMostInGrid || shape.heads > kMostInGrid)
    return fmt::format("{} items of {} heads are more than {}", shape.batch, shape.heads, kMostInGrid);
  return std::nullopt;
}

std::shared_ptr<const void> reserve(const AttentionShape& shape, const Device& device) {
  if (device.ordinal == kDescribed) return nullptr;
  return std::make_shared<const Room>(gpu_of(device), shape);
}

std::size_t workspace_bytes(const AttentionShape& shape) { return size_of_room(shape).bytes(); }

void run(const std::shared_ptr<const void>& room_of_plan, const AttentionCall& call, const Device& device,
         const SumOperations::Compute& compute) {
  const CurrentGpu current(gpu_of(device));  // not a description of one, which has no room
  // The calls that compute see neither.
  if (call.lse != nullptr) check_address(device, "lse", call.lse);
  if (call.workspace != nullptr) check_address(device, "workspace", call.workspace);
  const Room& room = *static_cast<const Room*>(room_of_plan.get());
  with_workspace(room.memory, call, [&](Workspace& workspace) {
    TwoResults results(call, {workspace.lse, workspace.lse + room.memory.size().lse / 2, workspace.partials});
    if (call.workspace != nullptr)
      results.first.workspace = results.second.workspace =
          static_cast<std::byte*>(call.workspace) + room.memory.size().bytes();
    compute(results.first, results.second);
    add(room, call, results);
  });
}

}  // namespace

std::string add_results_entry(DType dtype, bool vectors) {
  return fmt::format("_ZN4stof4cuda18add_results_kernelINS0_{}ELb{:d}EEEvNS0_16AddResultsParamsE", storage_of(dtype),
                     vectors);
}

const SumOperations sum_operations{.refuses = refuses,
                                   .predicted_us = predicted_us,
                                   .reserve = reserve,
                                   .workspace_bytes = workspace_bytes,
                                   .run = run};

}  // namespace stof::cuda
