// SPDX-License-Identifier: Apache-2.0
#include "src/attention/call.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "src/attention/call_tensors.h"
#include "src/attention/draft_trees.h"
#include "src/attention/pages.h"
#include "src/base/error.h"

namespace stof {
namespace {

// Which ways of giving lengths go together.
void check_forms(const AttentionArguments& a, bool packed) {
  if (packed && (!a.q_lengths.empty() || (!a.kv_lengths.empty() && !a.page_table)))
    fail(ErrorKind::invalid_argument, "attention: both cumulative offsets and lengths; give one of the two");
  if (a.page_table && !a.cu_kv.empty())
    fail(ErrorKind::invalid_argument, "attention: cu_kv with a page table; accepted: kv_lengths");
  if (!a.device_kv_lengths) return;
  if (!a.kv_lengths.empty())
    fail(ErrorKind::invalid_argument, "attention: kv_lengths and device_kv_lengths; give one of the two");
  if (packed && !a.page_table)
    fail(ErrorKind::invalid_argument, "attention: device_kv_lengths of a packed batch; accepted with pages, or padded");
}

void check_length(std::string_view name, std::size_t item, std::int64_t length, std::int64_t limit) {
  if (length < 0 || length > limit)
    fail(ErrorKind::invalid_argument, "attention: {} of item {} is {}; accepted: 0..{}", name, item, length, limit);
}

void check_offsets(std::string_view name, std::span<const std::int32_t> offsets, std::int64_t rows) {
  if (offsets.size() < 2 || offsets.front() != 0 || offsets.back() > rows)
    fail(ErrorKind::invalid_argument,
         "attention: {} has {} offsets from {} to {}; accepted: batch + 1 offsets from 0 to at most {}", name,
         offsets.size(), offsets.empty() ? 0 : offsets.front(), offsets.empty() ? 0 : offsets.back(), rows);
  for (std::size_t i = 1; i < offsets.size(); ++i)
    if (offsets[i] < offsets[i - 1])
      fail(ErrorKind::invalid_argument, "attention: {} falls from {} to {} at offset {}", name, offsets[i - 1],
           offsets[i], i);
}

void check_lengths(std::string_view name, std::span<const std::int32_t> lengths, std::int64_t batch) {
  if (!lengths.empty() && std::cmp_not_equal(lengths.size(), batch))
    fail(ErrorKind::invalid_argument, "attention: {} has {} lengths for {} items", name, lengths.size(), batch);
}

using Items = std::pmr::vector<AttentionItem>;

void place_item(AttentionItem& item, std::size_t place) { item.index = item.place = static_cast<std::int64_t>(place); }

// The queries of each item; keys are still to be placed.
Items packed_queries(const AttentionArguments& a, const AttentionShape& shape, const ListNames& names,
                     std::pmr::memory_resource* memory) {
  check_offsets(names.cu_q, a.cu_q, a.q.dim(0));
  check_items(std::ssize(a.cu_q) - 1, shape.heads);
  Items items(a.cu_q.size() - 1, memory);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::int64_t q = a.cu_q[i];
    place_item(items[i], i);
    items[i].queries = a.cu_q[i + 1] - q;
    items[i].q = q * a.q.strides[0];
    items[i].out = q * a.out.strides[0];
    items[i].lse = a.lse ? q * a.lse->strides[0] : 0;
    check_length(names.length_of_cu_q, i, items[i].queries, shape.queries);
  }
  return items;
}

Items padded_queries(const AttentionArguments& a, const AttentionShape& shape, const ListNames& names,
                     std::pmr::memory_resource* memory) {
  const std::int64_t batch = a.q.dim(0), queries = a.q.dim(2);
  if (batch > 0 && a.q_lengths.empty()) check_length("the number of query rows", 0, queries, shape.queries);
  check_lengths(names.q_lengths, a.q_lengths, batch);
  check_items(batch, shape.heads);
  Items items(static_cast<std::size_t>(batch), memory);
  for (std::size_t i = 0; i < items.size(); ++i) {
    place_item(items[i], i);
    items[i].queries = a.q_lengths.empty() ? queries : a.q_lengths[i];
    items[i].q = items[i].place * a.q.strides[0];
    items[i].out = items[i].place * a.out.strides[0];
    items[i].lse = a.lse ? items[i].place * a.lse->strides[0] : 0;
    check_length(names.q_lengths, i, items[i].queries, std::min(queries, shape.queries));
  }
  return items;
}

void place_packed_keys(const AttentionArguments& a, const AttentionShape& shape, const ListNames& names, Items& items) {
  check_offsets(names.cu_kv, a.cu_kv, a.k.dim(0));
  if (a.cu_q.size() != a.cu_kv.size())
    fail(ErrorKind::invalid_argument, "attention: {} has {} offsets; {} has {}", names.cu_q, a.cu_q.size(), names.cu_kv,
         a.cu_kv.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::int64_t kv = a.cu_kv[i];
    items[i].keys = a.cu_kv[i + 1] - kv;
    items[i].k = kv * a.k.strides[0];
    items[i].v = kv * a.v.strides[0];
    check_length(names.length_of_cu_kv, i, items[i].keys, shape.keys);
  }
}

// room: for the keys of an item, in its rows or pages. Pages begin where k and v do.
void place_keys(const AttentionArguments& a, const AttentionShape& shape, const ListNames& names, std::int64_t room,
                Items& items) {
  const std::int64_t most = std::min(room, shape.keys);
  const bool known = a.kv_lengths.empty() && !a.device_kv_lengths;  // every item has what there is room for
  if (known && !items.empty()) check_length("the number of keys", 0, room, shape.keys);
  check_lengths(names.kv_lengths, a.kv_lengths, static_cast<std::int64_t>(items.size()));
  for (std::size_t i = 0; i < items.size(); ++i) {
    items[i].keys = a.kv_lengths.empty() ? most : a.kv_lengths[i];
    if (!a.page_table) items[i].k = items[i].place * a.k.strides[0], items[i].v = items[i].place * a.v.strides[0];
    check_length(names.kv_lengths, i, items[i].keys, most);
  }
}

Items items_of(const AttentionArguments& a, const AttentionShape& shape, bool packed, const ListNames& names,
               std::pmr::memory_resource* memory) {
  Items items = packed ? packed_queries(a, shape, names, memory) : padded_queries(a, shape, names, memory);
  if (a.page_table) {
    check_page_table(*a.page_table, a.k, std::ssize(items));
    place_keys(a, shape, names, a.page_table->dim(1) * a.k.dim(2), items);
  } else if (packed) {
    place_packed_keys(a, shape, names, items);
  } else {
    place_keys(a, shape, names, a.k.dim(2), items);
  }
  if (a.device_kv_lengths) check_device_lengths(*a.device_kv_lengths, std::ssize(items));
  return items;
}

AttentionStrides strides_of(const TensorView& tensor, bool packed) {
  return packed ? AttentionStrides{.head = tensor.strides[1], .row = tensor.strides[0]}
                : AttentionStrides{.head = tensor.strides[1], .row = tensor.strides[2]};
}

AttentionCall call_of(const AttentionArguments& a, const AttentionShape& shape, bool packed) {
  const bool packed_keys = packed && !a.page_table;
  AttentionCall call;
  call.q = a.q.data;
  call.k = a.k.data;
  call.v = a.v.data;
  call.out = a.out.data;
  call.q_strides = strides_of(a.q, packed);
  call.k_strides = strides_of(a.k, packed_keys);
  call.v_strides = strides_of(a.v, packed_keys);
  call.out_strides = strides_of(a.out, packed);
  if (a.lse) {
    call.lse = a.lse->as<float>();
    call.lse_strides = strides_of(*a.lse, packed);
  }
  if (a.page_table) call.pages = key_pages(*a.page_table, a.k, a.v);
  if (a.device_kv_lengths) call.device_lengths = a.device_kv_lengths->as<std::int32_t>();
  call.packed = packed;
  call.stream = a.stream;
  call.backwards = a.backwards;
  call.out_read_next = a.out_read_next;
  call.workspace = a.workspace;
  call.heads = shape.heads;
  call.kv_heads = shape.kv_heads;
  call.head_dim = shape.head_dim;
  call.dtype = shape.dtype;
  call.scale = a.scale.value_or(static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim))));
  call.softcap = a.softcap.value_or(0.f);
  return call;
}

Items readable_items(const AttentionArguments& a, const AttentionShape& shape, std::pmr::memory_resource* memory) {
  const AttentionRows& rows = *a.rows;
  Items items(memory);
  for (std::int64_t i = 0; i < rows.items; ++i) {
    const std::int64_t start = rows.starts[i], length = rows.lengths[i];
    check_length("the length of rows", static_cast<std::size_t>(i), length, shape.queries);
    if (start < 0 || start + length > a.q.dim(0))
      fail(ErrorKind::invalid_argument, "attention: item {} has rows {}..{}; q has {}", i, start, start + length,
           a.q.dim(0));
    if (length == 0) continue;
    items.push_back({.index = 0,
                     .queries = length,
                     .keys = length,
                     .q = start * a.q.strides[0],
                     .k = start * a.k.strides[0],
                     .v = start * a.v.strides[0],
                     .out = start * a.out.strides[0]});
  }
  return items;
}

}  // namespace

void check_items(std::int64_t items, std::int64_t heads) {
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  if (items > kMost / heads)
    fail(ErrorKind::invalid_argument, "attention: {} items of {} heads; accepted: at most {} heads of all items", items,
         heads, kMost);
}

CheckedCall check_rows_call(const AttentionArguments& arguments, const AttentionShape& shape, bool readable,
                            std::pmr::memory_resource* memory) {
  const AttentionArguments& a = arguments;
  const AttentionRows& rows = *a.rows;
  if (!a.cu_q.empty() || !a.cu_kv.empty() || !a.q_lengths.empty() || !a.kv_lengths.empty())
    fail(ErrorKind::invalid_argument, "attention: both rows and lengths or offsets; give one of them");
  if (a.page_table || a.device_kv_lengths)
    fail(ErrorKind::invalid_argument, "attention: rows with pages or device_kv_lengths; give one of them");
  if (a.tree) fail(ErrorKind::invalid_argument, "attention: a tree with rows; accepted: cu_q and cu_kv with a tree");
  if (a.lse) fail(ErrorKind::invalid_argument, "attention: lse with rows; accepted: cu_q and cu_kv with an lse");
  if (shape.queries != shape.keys)
    fail(ErrorKind::invalid_argument, "attention: rows for a plan of {} queries and {} keys; accepted: as many of both",
         shape.queries, shape.keys);
  if (rows.items < 0 || rows.items > shape.batch)
    fail(ErrorKind::invalid_argument, "attention: {} items; accepted with rows: 0..{}, as planned", rows.items,
         shape.batch);
  for (const auto& [name, list] : {std::pair("starts", rows.starts), {"lengths", rows.lengths}})
    if (list == nullptr && rows.items > 0)
      fail(ErrorKind::invalid_argument, "attention: {} of rows is null; accepted: the address of {} numbers", name,
           rows.items);
  check_tensors(a, shape, true);
  if (a.k.dim(0) != a.q.dim(0))
    fail(ErrorKind::invalid_argument, "attention: k has {} rows; q has {}", a.k.dim(0), a.q.dim(0));
  CheckedCall checked{.call = call_of(a, shape, true), .items = Items(memory)};
  checked.call.memory = memory;
  if (readable) {
    checked.items = readable_items(a, shape, memory);
  } else if (rows.items > 0 && shape.queries > 0) {
    checked.call.device_items = {.count = rows.items,
                                 .rows = a.q.dim(0),
                                 .keys = a.q.dim(0),
                                 .starts = rows.starts,
                                 .lengths = rows.lengths,
                                 .settled = rows.settled};
    checked.items.push_back({.queries = shape.queries, .keys = shape.keys});
  }
  return checked;
}

namespace {

// Of a packed batch: keys in pages have lengths, others have offsets as queries have.
void check_paged_offsets(const DeviceLengths& lists) {
  if (lists.cu_kv != nullptr)
    fail(ErrorKind::invalid_argument, "attention: device_cu_kv with a page table; accepted: device_kv_lengths");
  if (lists.q_lengths != nullptr)
    fail(ErrorKind::invalid_argument, "attention: device_q_lengths and device_cu_q; give one of the two");
}

void check_offsets_of_rows(const DeviceLengths& lists) {
  if (lists.q_lengths != nullptr || lists.kv_lengths != nullptr)
    fail(ErrorKind::invalid_argument, "attention: both offsets and lengths on the device; give one of the two");
  if (lists.cu_q == nullptr || lists.cu_kv == nullptr)
    fail(ErrorKind::invalid_argument, "attention: device_lengths have {} only; accepted: both cu_q and cu_kv",
         lists.cu_q != nullptr ? "cu_q" : "cu_kv");
}

// Which ways of giving lengths go together with lists on the device.
void check_listed_forms(const AttentionArguments& a, const DeviceLengths& lists, const AttentionShape& shape,
                        bool packed) {
  if (!a.cu_q.empty() || !a.cu_kv.empty() || !a.q_lengths.empty() || !a.kv_lengths.empty() || a.rows ||
      (a.device_lengths && a.device_kv_lengths))
    fail(ErrorKind::invalid_argument, "attention: both device_lengths and other lengths, offsets or rows; give one");
  if (packed && a.page_table) check_paged_offsets(lists);
  if (packed && !a.page_table) check_offsets_of_rows(lists);
  constexpr std::int64_t kMostItems = 65535;  // of a launch
  if (const std::int64_t most = std::min(shape.batch, kMostItems); lists.items < 0 || lists.items > most)
    fail(ErrorKind::invalid_argument, "attention: {} items; accepted with device_lengths: 0..{}{}", lists.items, most,
         most == shape.batch ? ", as planned" : "");
}

// Padded items are apart by the first stride; of keys in pages all begin where the pool does.
void place_listed_items(const AttentionArguments& a, DeviceItems& items) {
  items.q = a.q.strides[0], items.out = a.out.strides[0];
  if (!a.page_table) items.k = a.k.strides[0], items.v = a.v.strides[0];
  if (a.lse) items.lse = a.lse->strides[0];
}

}  // namespace

CheckedCall check_listed_call(const AttentionArguments& arguments, const DeviceLengths& lists,
                              const AttentionShape& shape, std::pmr::memory_resource* memory) {
  const AttentionArguments& a = arguments;
  const bool packed = lists.cu_q != nullptr || lists.cu_kv != nullptr;
  check_listed_forms(a, lists, shape, packed);
  check_tensors(a, shape, packed);
  const bool packed_keys = packed && !a.page_table;
  const std::size_t rows = packed ? 0 : 2, key_rows = packed_keys ? 0 : 2;  // which dimension
  if (!packed && a.q.dim(0) != lists.items)
    fail(ErrorKind::invalid_argument, "attention: q has {} items; device_lengths have {}", a.q.dim(0), lists.items);
  if (!packed && lists.q_lengths == nullptr) check_length("the number of query rows", 0, a.q.dim(rows), shape.queries);
  if (a.page_table) check_page_table(*a.page_table, a.k, lists.items);
  const std::int64_t keys = (a.page_table ? a.page_table->dim(1) : 1) * a.k.dim(key_rows);  // there is room for
  if (!packed_keys && lists.kv_lengths == nullptr) check_length("the number of keys", 0, keys, shape.keys);
  CheckedCall checked{.call = call_of(a, shape, packed), .items = Items(memory)};
  checked.call.memory = memory;
  checked.call.device_lengths = nullptr;  // they are among the lists
  checked.call.trees = draft_trees(a, shape, lists.items);
  // Offsets from 0 of items that are no longer than planned reach no further than that.
  const std::int64_t all = packed ? lists.items : 1, all_keys = packed_keys ? lists.items : 1;
  const AttentionItem longest{.queries = lists.items == 0 ? 0 : std::min(a.q.dim(rows), shape.queries),
                              .keys = std::min(keys, shape.keys)};
  if (longest.queries == 0 && lists.status == nullptr) return checked;
  checked.call.device_items = {.count = lists.items,
                               .rows = std::min(a.q.dim(rows), all * longest.queries),
                               .keys = std::min(keys, all_keys * longest.keys),
                               .q_lengths = lists.q_lengths,
                               .kv_lengths = lists.kv_lengths,
                               .cu_q = lists.cu_q,
                               .cu_kv = lists.cu_kv,
                               .status = reinterpret_cast<std::int32_t*>(lists.status)};
  if (!packed) place_listed_items(a, checked.call.device_items);
  checked.items.push_back(longest);
  return checked;
}

CheckedCall check_call(const AttentionArguments& arguments, const AttentionShape& shape, bool batch_matters,
                       std::pmr::memory_resource* memory, const ListNames& names) {
  const AttentionArguments& a = arguments;
  const bool packed = !a.cu_q.empty() || !a.cu_kv.empty();
  check_forms(a, packed);
  check_tensors(a, shape, packed);
  CheckedCall checked{.call = call_of(a, shape, packed), .items = items_of(a, shape, packed, names, memory)};
  checked.call.memory = memory;
  checked.call.trees = draft_trees(a, shape, std::ssize(checked.items));
  if (batch_matters && std::cmp_greater(checked.items.size(), shape.batch))
    fail(ErrorKind::invalid_argument, "attention: {} items; the mask differs by item and was planned for {}",
         checked.items.size(), shape.batch);
  std::erase_if(checked.items, [](const AttentionItem& item) { return item.queries == 0; });
  if (!batch_matters)
    for (AttentionItem& item : checked.items) item.index = 0;
  return checked;
}

void check_workspace(const AttentionArguments& arguments, std::size_t needed) {
  constexpr std::uintptr_t kAlignment = 16;
  if (arguments.workspace_bytes < needed)
    fail(ErrorKind::invalid_argument, "attention: the workspace has {} bytes; this plan needs {}",
         arguments.workspace_bytes, needed);
  if (reinterpret_cast<std::uintptr_t>(arguments.workspace) % kAlignment != 0)
    fail(ErrorKind::invalid_argument, "attention: the workspace is at {}; accepted: a multiple of {}",
         arguments.workspace, kAlignment);
}

}  // namespace stof
