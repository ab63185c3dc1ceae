// SPDX-License-Identifier: Apache-2.0
// The arguments of one run, checked and brought into the one form that kernels take.
#pragma once
#include <memory_resource>
#include <vector>

#include "src/backend/contract.h"
#include "stof/attention.h"

namespace stof {

struct CheckedCall {
  AttentionCall call;  // its items are set by whoever runs it
  // Those with at least one query row. Of lists that the device reads the longest, and one without rows where nothing
  // is to be computed and their status is to be written.
  std::pmr::vector<AttentionItem> items;
};

// Each item of a call is listed, and each head of it is work: as many as a mask may tell apart. A batch of empty rows
// takes no memory of the caller's, and may have any size. Throws invalid_argument above 2^24 heads of all items.
void check_items(std::int64_t items, std::int64_t heads);

// What messages call the lists of a call, which may have been given as lists on the device.
struct ListNames {
  std::string_view q_lengths = "q_lengths", kv_lengths = "kv_lengths", cu_q = "cu_q", cu_kv = "cu_kv";
  std::string_view length_of_cu_q = "the length of cu_q", length_of_cu_kv = "the length of cu_kv";
};

// `batch_matters`: the mask differs by item, so that items past the planned batch have none. Lists are made in
// `memory`. Throws invalid_argument naming the argument, what was got and what is accepted.
CheckedCall check_call(const AttentionArguments& arguments, const AttentionShape& shape, bool batch_matters,
                       std::pmr::memory_resource* memory = std::pmr::get_default_resource(),
                       const ListNames& names = {});

// The same of a call with `rows`. `readable`: the host reads them, so that the call becomes an ordinary one.
CheckedCall check_rows_call(const AttentionArguments& arguments, const AttentionShape& shape, bool readable,
                            std::pmr::memory_resource* memory = std::pmr::get_default_resource());

// The same of a call whose lengths are in `lists`, which the device alone reads: its own, or device_kv_lengths.
CheckedCall check_listed_call(const AttentionArguments& arguments, const DeviceLengths& lists,
                              const AttentionShape& shape,
                              std::pmr::memory_resource* memory = std::pmr::get_default_resource());

// Throws invalid_argument unless the call's own workspace has `needed` bytes at a multiple of 16.
void check_workspace(const AttentionArguments& arguments, std::size_t needed);

}  // namespace stof
