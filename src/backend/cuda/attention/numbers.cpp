// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/numbers.h"

#include <algorithm>
#include <utility>

#include "kernels/shared/row_layout.h"
#include "src/backend/cuda/attention/kernel_store.h"
#include "src/backend/cuda/driver/device.h"
#include "src/backend/cuda/memory.h"
#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

constexpr unsigned kThreads = 256;

const Kernel& numbers_kernel(const Gpu& gpu) {
  return plain_kernel(gpu, "call_memory", "write_numbers_kernel", kThreads);
}

const Kernel& items_kernel(const Gpu& gpu) { return plain_kernel(gpu, "call_memory", "place_items_kernel", kThreads); }

}  // namespace

void prepare_numbers(const Gpu& gpu) {
  numbers_kernel(gpu);
  items_kernel(gpu);
}

FewNumbers few_numbers(const ItemRun& items) {
  FewNumbers few{};
  if (items.query_lengths.empty() || items.places > FewNumbers::kMost || items.residues > 1) return few;
  few.given = 1;
  few.with_starts = items.in_a_row && items.places > 1 ? 1 : 0;
  for (std::size_t i = 0; i < items.query_lengths.size(); ++i) {
    FewNumbers::Item& item = few.items[i];
    item.queries = items.query_lengths[i], item.keys = items.key_lengths[i];
    if (few.with_starts) item.query_start = items.query_starts[i], item.key_start = items.key_starts[i];
  }
  return few;
}

ItemLists item_lists(const stof::AttentionCall& call) {
  const stof::DeviceItems& items = call.device_items;
  const AttentionItem& longest = call.items.front();
  return {.q_lengths = items.q_lengths,
          .kv_lengths = items.kv_lengths,
          .cu_q = items.cu_q,
          .cu_kv = items.cu_kv,
          .queries = narrow<int>(longest.queries, "queries"),
          .keys = narrow<int>(longest.keys, "keys"),
          .q_rows = narrow<int>(items.rows, "rows of a packed batch"),
          .kv_rows = narrow<int>(items.keys, "keys of a packed batch"),
          .least_first = narrow<int>(items.least_first, "first position"),
          .least_queries = narrow<int>(items.least_queries, "queries")};
}

ItemSteps item_steps(const stof::AttentionCall& call) {
  const stof::DeviceItems& items = call.device_items;
  return {.q = {items.q, call.q_strides.row},
          .k = {items.k, call.k_strides.row},
          .v = {items.v, call.v_strides.row},
          .out = {items.out, call.out_strides.row},
          .lse = {items.lse, call.lse_strides.row}};
}

void place_items(const Gpu& gpu, const stof::AttentionCall& call, int* numbers, RowItem* list) {
  ItemPlacement placement{.lists = item_lists(call),
                          .steps = item_steps(call),
                          .items = narrow<int>(call.device_items.count, "items"),
                          .numbers = numbers,
                          .list = list,
                          .status = call.device_items.status};
  void* arguments[] = {&placement};
  items_kernel(gpu).launch({.grid = {}, .stream = static_cast<StreamHandle>(call.stream)}, arguments);
}

void judge_lists(const stof::AttentionCall& call, const Device& device) {
  check_list_addresses(call, device);
  place_items(gpu_of(device), call, nullptr);
}

void check_list_addresses(const stof::AttentionCall& call, const Device& device) {
  const stof::DeviceItems& lists = call.device_items;
  for (const auto& [name, list] : {std::pair<std::string_view, const void*>{"device_q_lengths", lists.q_lengths},
                                   {"device_kv_lengths", lists.kv_lengths},
                                   {"device_cu_q", lists.cu_q},
                                   {"device_cu_kv", lists.cu_kv},
                                   {"starts of rows", lists.starts},
                                   {"lengths of rows", lists.lengths},
                                   {"lengths_status", lists.status}})
    if (list != nullptr) check_address(device, name, list);
}

void write_numbers(const Gpu& gpu, int* to, std::span<const int> values, StreamHandle stream) {
  const Kernel& kernel = numbers_kernel(gpu);
  for (std::size_t first = 0; first < values.size(); first += NumbersParams::kMost) {
    NumbersParams params{.to = to + first, .count = 0, .values = {}};
    const auto some = values.subspan(first, std::min<std::size_t>(NumbersParams::kMost, values.size() - first));
    params.count = static_cast<int>(some.size());
    std::copy(some.begin(), some.end(), params.values);
    void* arguments[] = {&params};
    kernel.launch({.grid = {}, .stream = stream}, arguments);
  }
}

}  // namespace stof::cuda
