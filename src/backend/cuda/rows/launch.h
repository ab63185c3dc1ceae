// SPDX-License-Identifier: Apache-2.0
// How operations on rows are launched: what rows.cpp and rotate.cpp here share.
#pragma once
#include <cstdint>
#include <string>

#include "kernels/shared/rows.h"
#include "src/backend/cuda/attention/kernel_store.h"
#include "src/backend/cuda/driver/device.h"
#include "src/backend/operations.h"
#include "src/base/error.h"
#include "src/base/narrow.h"

namespace stof::cuda {

inline const Gpu& gpu_running(const WorkQueue& queue) {
  STOF_CHECK(queue.device != nullptr);
  return gpu_of(*queue.device);
}

inline unsigned ceil_div(std::int64_t a, std::int64_t b) {
  return narrow<unsigned>((a + b - 1) / b, "blocks of a launch");
}

// Of the elements that 16 bytes hold.
inline int vector_of(DType dtype) { return static_cast<int>(16 / size_of(dtype)); }

inline bool aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

struct KernelName {
  const char* unit;
  std::string entry;
  unsigned threads;
  bool follows_kernel = true;  // what is in front on the stream is a kernel, whose end this one may overlap
};

template <class Params>
void launch(const WorkQueue& queue, const KernelName& name, Dimensions grid, Params params) {
  const Gpu& gpu = gpu_running(queue);
  void* arguments[] = {&params};
  plain_kernel(gpu, name.unit, name.entry, name.threads)
      .launch({.grid = grid,
               .stream = static_cast<StreamHandle>(queue.stream),
               .overlap_previous = name.follows_kernel && gpu.caps.arch >= 90},
              arguments);
}

// A thread a piece.
template <class Params>
void launch_halves(const RowShape& shape, std::string entry, std::int64_t pieces_of_row, Params params) {
  const std::int64_t pieces = narrow<int>(shape.rows * pieces_of_row + HalvesGrid::kThreads, "rows * columns");
  if (shape.rows * pieces_of_row == 0) return;
  launch(shape.queue, {"halves", std::move(entry), HalvesGrid::kThreads},
         {.x = narrow<unsigned>((pieces - 1) / HalvesGrid::kThreads, "blocks")}, params);
}

}  // namespace stof::cuda
