// SPDX-License-Identifier: Apache-2.0
// Keys and values in pages: what a call may say of them, which pages it uses, and rows of them for kernels that read
// nothing else.
#pragma once
#include <array>
#include <memory_resource>

#include "src/backend/contract.h"
#include "stof/tensor.h"

namespace stof {

// Keys that a page may have.
inline constexpr std::array<std::int64_t, 5> kPageSizes = {16, 32, 64, 128, 256};

// Throw invalid_argument naming what was got and what is accepted.
void check_page_table(const TensorView& table, const TensorView& k, std::int64_t items);
void check_device_lengths(const TensorView& lengths, std::int64_t items);

KeyPages key_pages(const TensorView& table, const TensorView& k, const TensorView& v);

// Throws invalid_argument for the first page of an item, up to its length, that the pool does not have. The lists of
// the call are brought to the host.
void check_pages(const AttentionCall& call, const Device& device);

// Keys and values of all items, copied out of their pages into memory of the call. Needs a device of the host's memory.
struct GatheredKeys {
  explicit GatheredKeys(const AttentionCall& paged);
  AttentionCall call;
  std::pmr::vector<AttentionItem> items;
  std::pmr::vector<std::uint64_t> k, v;  // of any type that elements may have
};

}  // namespace stof
