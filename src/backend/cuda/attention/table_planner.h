// SPDX-License-Identifier: Apache-2.0
// Planning on the device: what a table that lies there allows becomes items, steps and words of the stream kernel. The
// memory for them is made once, for as many steps as the table's form can ask for or its capacity says.
#pragma once
#include <string_view>

#include "kernels/shared/device_table.h"
#include "src/backend/cuda/driver/device_memory.h"
#include "src/backend/cuda/driver/kernel.h"
#include "src/layout/table_form.h"

namespace stof::cuda {

// Entry point of the unit "table_plan" for tables of this kind.
std::string_view plan_entry(TableKind kind);

class TablePlanner {
 public:
  // Until the first plan every row block is dropped. Throws unsupported for a table that is too large.
  TablePlanner(const Gpu& gpu, const TableForm& form, const BoundMask& limit);

  // Puts the planning of a table in this GPU's memory on its stream. Allocates nothing, waits for nothing.
  void plan(const TableContents& contents) const;

  const DeviceTable& table() const { return table_; }  // its arrays are the layout
  int groups() const { return groups_; }
  std::size_t word_count() const { return words_.bytes() / sizeof(std::uint32_t); }

 private:
  TableKind kind_;
  int groups_;
  DeviceMemory report_, sources_, limits_, patterns_, planned_, items_, steps_, first_steps_, words_;
  DeviceTable table_{};
  const Kernel *plan_, *order_;
};

}  // namespace stof::cuda
