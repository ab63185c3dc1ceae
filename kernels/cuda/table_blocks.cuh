// SPDX-License-Identifier: Apache-2.0
// Plans a mask that names whole blocks of keys, by lists or by a byte a block, and the order of what was planned.
#pragma once
#include "kernels/cuda/table_row.cuh"

namespace stof::cuda {

constexpr int kTableWarps = 8;  // of a CTA, a row block each

__device__ __forceinline__ void touch_block(const DeviceTable& p, RowTiles& tiles, int block) {
  const int first = block * p.block_tiles, end = min(first + p.block_tiles, (p.keys + 63) / 64);
  for (int tile = first; tile < end; ++tile) atomicOr(&tiles.touched[tile / 32], 1u << tile % 32);
}

// What one row of a table names. The answer: how many entries name nothing.
struct BlockLists {
  static __device__ __forceinline__ int touch(const DeviceTable& p, RowTiles& tiles, long long row) {
    const int* list = static_cast<const int*>(p.data) + row;
    int ignored = 0;
    for (int i = static_cast<int>(threadIdx.x) % 32; i < p.columns; i += 32) {
      const int block = list[i];
      if (block >= 0 && block < p.blocks) touch_block(p, tiles, block);
      else ignored += block != -1;
    }
    return ignored;
  }
};
struct BlockBytes {
  static __device__ __forceinline__ int touch(const DeviceTable& p, RowTiles& tiles, long long row) {
    const unsigned char* allowed = static_cast<const unsigned char*>(p.data) + row;
#pragma unroll 8
    for (int i = static_cast<int>(threadIdx.x) % 32; i < p.columns; i += 32)
      if (allowed[i]) touch_block(p, tiles, i);
    return 0;
  }
};

// Grid: {row_blocks / kTableWarps, groups}. Writes planned and steps.
template <class Table>
__global__ void __launch_bounds__(32 * kTableWarps) plan_blocks_kernel(const __grid_constant__ DeviceTable p) {
  __shared__ RowTiles shared[kTableWarps];
  allow_next_grid();
  const int warp = uniform(static_cast<int>(threadIdx.x) / 32), lane = static_cast<int>(threadIdx.x) % 32;
  const int row_block = static_cast<int>(blockIdx.x) * kTableWarps + warp, group = static_cast<int>(blockIdx.y);
  if (row_block >= p.row_blocks) return;
  RowTiles& tiles = shared[warp];
  for (int w = lane; w < p.words; w += 32) tiles.touched[w] = 0;
  __syncwarp();
  const TableSource source = p.sources[group];
  for (int w = lane; w < p.words; w += 32) tiles.partial[w] = limit_of(p, source.limit, row_block, w).partial;
  const int table_row = row_block / p.block_rows;
  int ignored =
      Table::touch(p, tiles, source.item * p.item_stride + source.head * p.head_stride + table_row * p.row_stride);
  // The row blocks of one row of the table count what it ignores once, under whatever limits.
  ignored = source.first && row_block % p.block_rows == 0 ? __reduce_add_sync(~0u, ignored) : 0;
  __syncwarp();
  for (int w = lane; w < p.words; w += 32) tiles.touched[w] &= limit_of(p, source.limit, row_block, w).touched;
  __syncwarp();
  write_steps(p, tiles, group * p.row_blocks + row_block, ignored,
              [&](int word, int tile) { return pattern_of(p, limit_of(p, source.limit, row_block, word), tile); });
}

}  // namespace stof::cuda
