// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/mma_launch.h"

#include <algorithm>

#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

// What the copy engine could take is copied 16 bytes at a time, anything else by elements.
bool aligned(const TensorBox& box) { return box.sizes[0] % 8 == 0 && fits(box); }

AttentionInput input_of(const TensorBox& box) {
  return {.values = box.base,
          .row_stride = box.strides[0],
          .head_stride = box.strides[2],
          .item_stride = box.strides[3],
          .aligned = aligned(box)};
}

}  // namespace

MmaParams mma_params(const TiledLaunch& launch) {
  MmaParams params{};
  params.call = launch.call;
  params.q = input_of(launch.boxes.q);
  params.k = input_of(launch.boxes.k);
  params.v = input_of(launch.boxes.v);
  params.aligned_out = aligned(launch.boxes.out);
  params.partials = launch.workspace.partials;
  params.arrivals = launch.workspace.arrivals;
  params.pages = launch.pages;
  params.trees = launch.trees;
  params.bias = launch.bias;
  return params;
}

void launch_mma(const InstanceKernel& kernel, const TiledLaunch& launch, std::int64_t grid, MmaParams params) {
  void* arguments[] = {&params};
  const auto ctas = static_cast<unsigned>(narrow<int>(grid, "row blocks of a launch"));
  kernel.kernel.launch({.grid = {ctas}, .stream = launch.stream}, arguments);
}

const InstanceKernel& packed_mma_kernel(const Gpu& gpu, DType dtype, std::int64_t head_dim, std::string_view entry) {
  const int rounded = rounded_head_dim(mma_instances(), head_dim).value();
  const auto instance = std::find_if(mma_instances().begin(), mma_instances().end(),
                                     [&](const MmaInstance& i) { return i.head_dim == rounded && i.parts == 1; });
  STOF_CHECK(instance != mma_instances().end());
  return instance_kernel(gpu, name_of(*instance, dtype), entry);
}

void launch_packed_mma(const TiledLaunch& launch) {
  MmaParams params = mma_params(launch);
  params.blocks = launch.mask.blocks->view();
  params.blocks.row_begin += std::int64_t{launch.heads.group} * (params.blocks.row_blocks + 1);
  const std::int64_t row_blocks = std::int64_t{params.blocks.row_blocks} * (params.blocks.block_q / 64);
  const bool paged = launch.pages.table != nullptr;
  launch_mma(*(paged ? launch.mask.paged_packed : launch.mask.packed), launch, row_blocks * launch.call.shape.slices,
             params);
}

}  // namespace stof::cuda
