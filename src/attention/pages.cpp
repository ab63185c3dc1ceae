// SPDX-License-Identifier: Apache-2.0
#include "src/attention/pages.h"

#include <algorithm>
#include <cstring>

#include "src/attention/call_tensors.h"
#include "src/base/error.h"
#include "src/base/memory.h"

namespace stof {
namespace {

// Lists of the device, as the host reads them.
class HostLists {
 public:
  HostLists(const AttentionCall& call, const Device& device) : call_(call), device_(device) {}

  std::span<const std::int32_t> pages(const AttentionItem& item, std::int64_t count) {
    return read(call_.pages.table + item.place * call_.pages.item_stride, count);
  }
  std::int64_t keys(const AttentionItem& item) {
    const std::int32_t* const lengths =
        call_.device_items.count > 0 ? call_.device_items.kv_lengths : call_.device_lengths;
    if (lengths == nullptr) return item.keys;
    return std::clamp<std::int64_t>(read(lengths + item.place, 1)[0], 0, item.keys);
  }

 private:
  std::span<const std::int32_t> read(const std::int32_t* from, std::int64_t count) {
    const auto size = static_cast<std::size_t>(count);
    const MemoryOperations* const memory = device_.backend->memory;
    if (memory == nullptr || size == 0) return {from, size};
    copied_.resize(size);
    memory->copy_out(device_, std::as_writable_bytes(std::span(copied_)), from);
    return copied_;
  }

  const AttentionCall& call_;
  const Device& device_;
  std::vector<std::int32_t> copied_;
};

struct Pool {
  const void* pages;
  std::int64_t stride;
  AttentionStrides strides;
};

// Rows of all items, [keys, kv_heads, head_dim].
void copy_pages(const AttentionCall& call, const Pool& pool, void* to) {
  const KeyPages& pages = call.pages;
  const std::size_t element = size_of(call.dtype), row = static_cast<std::size_t>(call.head_dim) * element;
  auto* at = static_cast<std::byte*>(to);
  for (const AttentionItem& item : call.items)
    for (std::int64_t key = 0; key < item.keys; ++key) {
      const std::int64_t page = pages.table[item.place * pages.item_stride + key / pages.size];
      const std::int64_t first = page * pool.stride + key % pages.size * pool.strides.row;
      for (std::int64_t head = 0; head < call.kv_heads; ++head, at += row)
        std::memcpy(at,
                    static_cast<const std::byte*>(pool.pages) +
                        static_cast<std::size_t>(first + head * pool.strides.head) * element,
                    row);
    }
}

std::int64_t pages_of(std::int64_t keys, const KeyPages& pages) { return (keys + pages.size - 1) / pages.size; }

}  // namespace

void check_page_table(const TensorView& table, const TensorView& k, std::int64_t items) {
  const std::int64_t size = k.dim(2);
  if (std::find(kPageSizes.begin(), kPageSizes.end(), size) == kPageSizes.end())
    fail(ErrorKind::invalid_argument, "attention: pages of {} keys; accepted: 16, 32, 64, 128, 256", size);
  if (table.dtype != DType::i32 || table.rank() != 2 || table.dim(0) != items || table.strides.size() != 2 ||
      (table.dim(1) > 1 && table.strides[1] != 1))
    fail(ErrorKind::invalid_argument,
         "attention: page_table is {} {} with strides {}; accepted: i32 [{}, pages of an item], the last stride 1",
         name_of(table.dtype), to_string(table.shape), to_string(table.strides), items);
  check_has_memory("page_table", table);
}

void check_device_lengths(const TensorView& lengths, std::int64_t items) {
  if (lengths.dtype != DType::i32 || lengths.rank() != 1 || lengths.dim(0) != items || lengths.strides.size() != 1 ||
      (items > 1 && lengths.strides[0] != 1))
    fail(ErrorKind::invalid_argument, "attention: device_kv_lengths is {} {}; accepted: i32 [{}], contiguous",
         name_of(lengths.dtype), to_string(lengths.shape), items);
  check_has_memory("device_kv_lengths", lengths);
}

KeyPages key_pages(const TensorView& table, const TensorView& k, const TensorView& v) {
  return {.table = table.as<std::int32_t>(),
          .item_stride = table.strides[0],
          .size = k.dim(2),
          .count = k.dim(0),
          .k_stride = k.strides[0],
          .v_stride = v.strides[0]};
}

void check_pages(const AttentionCall& call, const Device& device) {
  HostLists lists(call, device);
  const auto check = [&](const AttentionItem& item) {
    const std::span<const std::int32_t> pages = lists.pages(item, pages_of(lists.keys(item), call.pages));
    for (std::size_t i = 0; i < pages.size(); ++i)
      if (pages[i] < 0 || pages[i] >= call.pages.count)
        fail(ErrorKind::invalid_argument, "attention: page {} of item {} is {}; accepted: {}", i, item.place, pages[i],
             call.pages.count == 0 ? "none, there are no pages" : fmt::format("0..{}", call.pages.count - 1));
  };
  if (call.device_items.count == 0) {
    std::for_each(call.items.begin(), call.items.end(), check);
    return;
  }
  AttentionItem listed = call.items.front();  // the longest
  for (listed.place = 0; listed.place < call.device_items.count; ++listed.place) check(listed);
}

GatheredKeys::GatheredKeys(const AttentionCall& paged)
    : call(paged), items(paged.items.begin(), paged.items.end(), paged.memory), k(paged.memory), v(paged.memory) {
  std::int64_t rows = 0;
  for (AttentionItem& item : items) {
    item.k = item.v = rows * paged.kv_heads * paged.head_dim;
    rows += item.keys;
  }
  // A table may name one page as often as it likes.
  check_memory(fmt::format("the keys and values of {} rows in pages", rows),
               2.0 * static_cast<double>(rows) * static_cast<double>(paged.kv_heads * paged.head_dim) *
                   static_cast<double>(size_of(paged.dtype)));
  const auto bytes = static_cast<std::size_t>(rows * paged.kv_heads * paged.head_dim) * size_of(paged.dtype);
  k.resize((bytes + sizeof k[0] - 1) / sizeof k[0]);
  v.resize(k.size());
  copy_pages(paged, {paged.k, paged.pages.k_stride, paged.k_strides}, k.data());
  copy_pages(paged, {paged.v, paged.pages.v_stride, paged.v_strides}, v.data());
  call.k = k.data(), call.v = v.data();
  call.k_strides = call.v_strides = {.head = paged.head_dim, .row = paged.kv_heads * paged.head_dim};
  call.pages = {};
  call.packed = false;
  call.items = items;
}

}  // namespace stof
