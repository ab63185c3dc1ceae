// SPDX-License-Identifier: Apache-2.0
// A value's place in the memory of a call.
#pragma once
#include "src/runtime/program.h"

namespace stof {

struct Slot {
  std::int64_t whole = 0, split = 0;  // offsets in columns, where all rows are gone through and where some are dropped
  bool in_tail = false;               // of the steps that go through the rows that are kept
  std::size_t element = 4;

  void* at(const Frame& frame) const {
    std::byte* const memory = in_tail && frame.tail != nullptr ? frame.tail : frame.arena;
    const std::int64_t offset = frame.tail != nullptr ? split : whole;
    const std::int64_t capacity = in_tail && frame.tail != nullptr ? frame.tail_capacity : frame.row_capacity;
    return memory + static_cast<std::size_t>(offset * capacity) * element;
  }
  Slot behind(std::int64_t columns) const { return {whole + columns, split + columns, in_tail, element}; }
};

}  // namespace stof
