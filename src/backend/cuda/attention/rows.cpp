// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/rows.h"

#include <algorithm>
#include <bit>
#include <numbers>

#include "kernels/shared/row_lists.h"
#include "src/backend/cuda/attention/call_pieces.h"
#include "src/backend/cuda/attention/cost.h"
#include "src/backend/cuda/attention/kernel_store.h"
#include "src/backend/cuda/attention/numbers.h"
#include "src/backend/cuda/driver/device.h"
#include "src/backend/cuda/memory.h"
#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

constexpr const char* kUnit = "row_attention";
constexpr int kRowsPerBlock = 8;
constexpr int kThreads = 32 * kRowsPerBlock;

RowAttentionParams params_of(const stof::AttentionCall& call, const RowLayoutView& layout) {
  RowAttentionParams params{};
  params.q = call.q, params.k = call.k, params.v = call.v;
  params.out = call.out, params.lse = call.lse;
  params.q_stride = stride_of(call.q_strides), params.k_stride = stride_of(call.k_strides);
  params.v_stride = stride_of(call.v_strides), params.out_stride = stride_of(call.out_strides);
  params.lse_stride = stride_of(call.lse_strides);
  params.heads = narrow<int>(call.heads, "heads");
  params.heads_per_kv = narrow<int>(call.heads / call.kv_heads, "heads of a key head");
  params.head_dim = narrow<int>(call.head_dim, "head_dim");
  params.scale = call.scale, params.softcap = call.softcap;
  params.pages = page_table_of(call.pages);
  params.trees = draft_trees_of(call);
  params.bias = score_bias(call, 0, std::numbers::log2e_v<float>);  // scores are in natural units
  params.layout = layout;
  return params;
}

}  // namespace

RowStride stride_of(const AttentionStrides& strides) { return {strides.head, strides.row}; }

PageTable page_table_of(const KeyPages& pages) {
  constexpr int kNoPage = 31;  // every key is in row `key` of page 0
  if (pages.table == nullptr)
    return {.table = nullptr, .item_stride = 0, .k_stride = 0, .v_stride = 0, .shift = kNoPage};
  return {.table = pages.table,
          .item_stride = pages.item_stride,
          .k_stride = pages.k_stride,
          .v_stride = pages.v_stride,
          .shift = std::countr_zero(static_cast<std::uint64_t>(pages.size))};
}

DraftTrees draft_trees_of(const stof::AttentionCall& call) {
  const stof::DraftTrees& trees = call.trees;
  return {.words = reinterpret_cast<const unsigned*>(trees.words),
          .item_stride = trees.item_stride,
          .row_stride = narrow<int>(trees.row_stride, "words between rows of a tree"),
          .queries = narrow<int>(trees.queries, "queries of a tree")};
}

RowItem row_item(const AttentionItem& item) {
  return {.q = item.q,
          .k = item.k,
          .v = item.v,
          .out = item.out,
          .lse = item.lse,
          .queries = narrow<int>(item.queries, "queries"),
          .keys = narrow<int>(item.keys, "keys"),
          .index = narrow<int>(item.index, "item"),
          .place = narrow<int>(item.place, "item")};
}

std::string_view row_entry(DType dtype) {
  if (dtype == DType::f16) return "_ZN4stof4cuda20row_attention_kernelINS0_10StoredHalfEEEvNS0_18RowAttentionParamsE";
  if (dtype == DType::bf16)
    return "_ZN4stof4cuda20row_attention_kernelINS0_12StoredBfloatEEEvNS0_18RowAttentionParamsE";
  return "_ZN4stof4cuda20row_attention_kernelINS0_6SingleEEEvNS0_18RowAttentionParamsE";
}

std::string_view listed_row_entry(DType dtype) {
  if (dtype == DType::f16)
    return "_ZN4stof4cuda27listed_row_attention_kernelINS0_10StoredHalfEEEvNS0_15ListedRowParamsE";
  if (dtype == DType::bf16)
    return "_ZN4stof4cuda27listed_row_attention_kernelINS0_12StoredBfloatEEEvNS0_15ListedRowParamsE";
  return "_ZN4stof4cuda27listed_row_attention_kernelINS0_6SingleEEEvNS0_15ListedRowParamsE";
}

Refusal rows_refuse(const AttentionProblem&, const DeviceCaps&) { return std::nullopt; }

std::vector<AttentionPlan> row_candidates(const AttentionProblem& problem, const DeviceCaps& caps) {
  AttentionPlan plan;
  plan.kernel = kRowAttention;
  plan.format = {.block_q = 64, .block_kv = 64, .key_step = 64};
  plan.predicted_us = predict_rows(problem, caps);
  plan.reason = "takes every dtype, head dimension and alignment, a warp a row";
  return {plan};
}

ArrangedMask arrange_row_mask(const AttentionPlan&, PackedMask mask, const Device& device) {
  if (device.ordinal == kDescribed) return std::make_shared<const BlockLayout>(std::move(mask.blocks));
  const Gpu& gpu = gpu_of(device);
  prepare_rows(gpu, mask.shape.dtype);
  return std::make_shared<const DeviceBlocks>(gpu, mask.blocks);
}

void prepare_rows(const Gpu& gpu, DType dtype) {
  plain_kernel(gpu, kUnit, row_entry(dtype), kThreads);
  plain_kernel(gpu, kUnit, listed_row_entry(dtype), kThreads);
  prepare_numbers(gpu);
}

void check_addresses(const stof::AttentionCall& call, const Device& device) {
  bool keys = false;
  for (const AttentionItem& item : call.items) keys = keys || item.keys > 0;
  check_address(device, "q", call.q);
  check_address(device, "out", call.out);
  if (keys) check_address(device, "k", call.k);
  if (keys) check_address(device, "v", call.v);
  if (call.lse != nullptr) check_address(device, "lse", call.lse);
  if (keys && call.pages.table != nullptr) check_address(device, "page_table", call.pages.table);
  if (call.device_lengths != nullptr) check_address(device, "device_kv_lengths", call.device_lengths);
  if (call.trees.queries > 0) check_address(device, "tree", call.trees.words);
  if (call.bias.values != nullptr) check_address(device, "relative_bias", call.bias.values);
  check_list_addresses(call, device);
}

void run_rows(const AttentionPlan&, const ArrangedMask& mask, const stof::AttentionCall& call, const Device& device) {
  gpu_of(device);
  if (call.items.empty()) return;
  check_addresses(call, device);
  launch_rows(*static_cast<const DeviceBlocks*>(mask.get()), call);
}

namespace {

// Of so many items; `longest`: rows of one.
Launch row_launch(RowAttentionParams& params, const stof::AttentionCall& call, std::int64_t items,
                  std::int64_t longest) {
  params.chunks = static_cast<int>((longest + kRowsPerBlock - 1) / kRowsPerBlock);
  const auto blocks_in_x = narrow<int>(std::int64_t{params.chunks} * params.heads, "groups of rows");
  return {.grid = {static_cast<unsigned>(blocks_in_x), 1, static_cast<unsigned>(items)},
          .stream = static_cast<StreamHandle>(call.stream)};
}

void launch_listed_rows(const DeviceBlocks& blocks, const stof::AttentionCall& call) {
  if (call.device_items.status != nullptr) place_items(blocks.gpu(), call, nullptr);
  ListedRowParams params{.call = params_of(call, blocks.view()), .lists = item_lists(call), .steps = item_steps(call)};
  const Launch launch = row_launch(params.call, call, call.device_items.count, call.items.front().queries);
  void* arguments[] = {&params};
  plain_kernel(blocks.gpu(), kUnit, listed_row_entry(call.dtype), kThreads).launch(launch, arguments);
}

}  // namespace

void launch_rows(const DeviceBlocks& blocks, const stof::AttentionCall& call) {
  const stof::DeviceItems& there = call.device_items;
  if (there.count > 0 && there.starts == nullptr) return launch_listed_rows(blocks, call);
  const Kernel& kernel = plain_kernel(blocks.gpu(), kUnit, row_entry(call.dtype), kThreads);
  RowAttentionParams params = params_of(call, blocks.view());
  const auto start = [&](std::int64_t items, std::int64_t longest) {
    const Launch launch = row_launch(params, call, items, longest);
    void* arguments[] = {&params};
    kernel.launch(launch, arguments);
  };
  for (std::int64_t first = 0; first < there.count; first += kMostInGrid) {
    params.starts = there.starts + first;
    params.lengths = there.lengths + first;
    start(std::min<std::int64_t>(kMostInGrid, there.count - first), call.items.front().queries);
  }
  if (there.count > 0) return;
  for (std::size_t first = 0; first < call.items.size(); first += RowAttentionParams::kMostItems) {
    const auto items =
        call.items.subspan(first, std::min<std::size_t>(RowAttentionParams::kMostItems, call.items.size() - first));
    std::int64_t longest = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      params.items[i] = row_item(items[i]);
      longest = std::max(longest, items[i].queries);
    }
    start(std::ssize(items), longest);
  }
}

}  // namespace stof::cuda
