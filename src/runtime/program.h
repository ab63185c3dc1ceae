// SPDX-License-Identifier: Apache-2.0
// A graph made ready for a device: weights packed, attention planned, memory laid out.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "src/graph/graph.h"
#include "src/runtime/batch.h"
#include "src/runtime/memory_plan.h"
#include "stof/attention.h"

namespace stof {

// What a step of one call reads and writes.
struct Frame {
  const RowBatch& batch;
  std::byte* arena;
  std::int64_t row_capacity;  // rows that every value has room for
};

struct ProgramOptions {
  Device device;
  DType dtype = DType::f32;
  std::int64_t longest = 0;  // tokens of the longest text
};

class Program {
 public:
  // Throws unsupported for a dtype or an attention that the device does not take.
  Program(const Graph& graph, const ProgramOptions& options);

  std::int64_t arena_bytes(std::int64_t rows) const;
  // Runs every step; the arena has arena_bytes(batch.rows), 64-byte aligned. Returns the result inside the arena,
  // [rows, columns] of the program's dtype.
  const void* run(const RowBatch& batch, std::byte* arena) const;
  // Attention plans made since this program was: one for each mask and shape, and more only as Attention says.
  std::int64_t plans_made() const;
  std::int64_t result_columns() const { return result_columns_; }
  DType dtype() const { return options_.dtype; }

 private:
  using Step = std::function<void(const Frame&)>;
  friend class ProgramBuilder;

  ProgramOptions options_;
  ArenaPlan arena_;
  ValueId result_ = 0;
  std::int64_t result_columns_ = 0;
  std::vector<Step> steps_;
  std::vector<std::shared_ptr<const Attention>> attention_;
};

}  // namespace stof
