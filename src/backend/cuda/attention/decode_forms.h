// SPDX-License-Identifier: Apache-2.0
// The forms of the decode kernel: how many rows a task has room for, and who multiplies them.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "src/backend/cuda/attention/instances.h"

namespace stof::cuda {

struct DecodeForm {
  int rows;            // of a task
  bool of_warpgroups;  // wgmma, which reads keys once for all rows; else each warp reads them for its 16
  std::string_view entry, sum_entry;
  std::string_view tree_entry;  // of calls with draft trees
};

// Those of a device, by their rows.
std::span<const DecodeForm> decode_forms(const DecodeInstance& instance, int arch);

// The unit that has a form's entries.
std::string unit_of(const DecodeForm& form, const DecodeInstance& instance, DType dtype);

// Threads of a CTA that multiply; others copy.
int readers_of(const DecodeForm& form, const DecodeInstance& instance);

// Which of them takes a task of so many rows, or one of the tasks that as many are cut into.
std::size_t form_for(std::span<const DecodeForm> forms, std::int64_t rows);

}  // namespace stof::cuda
