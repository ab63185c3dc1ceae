// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/numbers.h"

#include <algorithm>

#include "kernels/shared/row_layout.h"
#include "src/backend/cuda/attention/kernel_store.h"

namespace stof::cuda {
namespace {

constexpr unsigned kThreads = 256;

const Kernel& numbers_kernel(const Gpu& gpu) {
  return plain_kernel(gpu, "call_memory", "write_numbers_kernel", kThreads);
}

}  // namespace

void prepare_numbers(const Gpu& gpu) { numbers_kernel(gpu); }

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
