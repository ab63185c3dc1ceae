// SPDX-License-Identifier: Apache-2.0
// Plans a mask of one byte a pair: every tile is read once, settled as empty, full or partial, and where it is partial
// written as words in register order.
#pragma once
#include "kernels/cuda/table_row.cuh"

namespace stof::cuda {

constexpr int kBitsWarps = 8;  // of a CTA, which share the tiles of one row block

// Bit i: byte i of the 16 is not 0. The dot product of four flags of 128 with powers of 2 sets them side by side.
__device__ __forceinline__ u32 nonzero_bytes(const uint4& bytes) {
  const auto flags = [](u32 word) { return ((word & 0x7f7f7f7fu) + 0x7f7f7f7fu | word) & 0x80808080u; };
  const u32 first = __dp4a(flags(bytes.y), 0x80402010u, __dp4a(flags(bytes.x), 0x08040201u, 0u));
  const u32 second = __dp4a(flags(bytes.w), 0x80402010u, __dp4a(flags(bytes.z), 0x08040201u, 0u));
  return first >> 7 | second << 1;
}

// The low halves of the eight bytes, side by side.
__device__ __forceinline__ u32 low_halves(u64 bytes) {
  const auto four = [](u32 x) { return x & 0xfu | x >> 4 & 0xf0u | x >> 8 & 0xf00u | x >> 12 & 0xf000u; };
  return four(static_cast<u32>(bytes)) | four(static_cast<u32>(bytes >> 32)) << 16;
}

struct BitsShared {
  RowTiles tiles;
  unsigned short patterns[DeviceTable::kMostKeys / 64];  // of partial tiles: which of the row block's own
  int used;                                              // of these, also beyond what there is room for
  u64 rows[kBitsWarps][2][64];                           // of the two tiles that a warp works on, bit j for key j
};

// One CTA's row block.
struct BitsRow {
  const DeviceTable& p;
  BitsShared& shared;
  const unsigned char* allowed;  // of its first row
  int row_block, index;          // of the head, of all groups
  int limit;
  bool aligned;  // rows can be read 16 bytes at a time

  __device__ __forceinline__ int rows() const { return min(64, p.queries - 64 * row_block); }
  __device__ __forceinline__ int first_pattern() const { return p.first_own_pattern + index * p.room; }

  // 16 keys of a row, wherever they lie.
  __device__ __forceinline__ u32 read_slowly(int row, int key) const {
    const unsigned char* from = allowed + row * p.row_stride + key;
    u32 bits = 0;
#pragma unroll 1
    for (int i = 0; i < 16; ++i)
      if (key + i < p.keys && from[i]) bits |= 1u << i;
    return bits;
  }

  // Tiles 2 pair and 2 pair + 1, by a warp: 8 lanes a row, 4 rows at a time, all 16 loads on their way together.
  __device__ __forceinline__ void read_tiles(int pair, u64 (&tile_rows)[2][64], bool wanted) const {
    constexpr int kLoads = 16;
    const int lane = static_cast<int>(threadIdx.x) % 32, piece = lane % 8, key = 128 * pair + 16 * piece;
    const int own_rows = wanted ? rows() : 0;
    auto* const pieces = reinterpret_cast<unsigned short*>(tile_rows[piece / 4]) + piece % 4;
    if (aligned && 128 * (pair + 1) <= p.keys) {
      uint4 bytes[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int row = 4 * i + lane / 8;
        bytes[i] = make_uint4(0, 0, 0, 0);
        if (row < own_rows) bytes[i] = __ldcs(reinterpret_cast<const uint4*>(allowed + row * p.row_stride + key));
      }
#pragma unroll
      for (int i = 0; i < kLoads; ++i)
        pieces[4 * (4 * i + lane / 8)] = static_cast<unsigned short>(nonzero_bytes(bytes[i]));
      return;
    }
#pragma unroll 1
    for (int row = lane / 8; row < 64; row += 4)
      pieces[4 * row] = static_cast<unsigned short>(row < own_rows ? read_slowly(row, key) : 0);
  }

  // By a warp, of the rows of one tile.
  __device__ __forceinline__ void settle(int tile, const u64 (&tile_rows)[64], const LimitTiles& limits) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, keys = p.keys - 64 * tile;
    const u64 all = keys >= 64 ? ~0ull : (1ull << keys) - 1, upper = tile_rows[lane], lower = tile_rows[lane + 32];
    if (!__any_sync(~0u, (upper | lower) != 0)) return;
    const bool limited = limits.partial >> tile % 32 & 1;
    const bool full = __all_sync(~0u, (upper == all || lane >= rows()) && (lower == all || lane + 32 >= rows()));
    if (full && !limited) {
      if (lane == 0) atomicOr(&shared.tiles.touched[tile / 32], 1u << tile % 32);
      return;
    }
    u32 words[4], any = 0;
#pragma unroll
    for (int warp = 0; warp < 4; ++warp) words[warp] = register_word(tile_rows, warp);
    if (limited) {
      const u32* limit_words = p.pattern_words + pattern_of(p, limits, tile) * 128 + lane;
#pragma unroll
      for (int warp = 0; warp < 4; ++warp) words[warp] &= limit_words[32 * warp];
    }
#pragma unroll
    for (int warp = 0; warp < 4; ++warp) any |= words[warp];
    if (__any_sync(~0u, any != 0)) keep(tile, words);
  }

  // The thread's bits of the tile, where it holds the scores of a warp of the stream kernel.
  static __device__ __forceinline__ u32 register_word(const u64 (&tile_rows)[64], int warp) {
    constexpr u64 kPairs = 0x0303030303030303ull;
    const int lane = static_cast<int>(threadIdx.x) % 32, row = 16 * warp + lane / 4, column = lane % 4 * 2;
    return low_halves((tile_rows[row] >> column & kPairs) | (tile_rows[row + 8] >> column & kPairs) << 2);
  }

  // A partial tile, in the next of the row block's own patterns.
  __device__ __forceinline__ void keep(int tile, const u32 (&words)[4]) const {
    int own = 0;
    if (threadIdx.x % 32 == 0) {
      atomicOr(&shared.tiles.touched[tile / 32], 1u << tile % 32);
      atomicOr(&shared.tiles.partial[tile / 32], 1u << tile % 32);
      own = atomicAdd(&shared.used, 1);
      shared.patterns[tile] = static_cast<unsigned short>(own);
    }
    own = uniform(own);
    if (own >= p.room) return;
    u32* const to = p.pattern_words + (static_cast<long long>(first_pattern()) + own) * 128 + threadIdx.x % 32;
#pragma unroll
    for (int warp = 0; warp < 4; ++warp) to[32 * warp] = words[warp];
  }

  __device__ __forceinline__ void run() const {
    const int warp = uniform(static_cast<int>(threadIdx.x) / 32), piece = static_cast<int>(threadIdx.x) % 8;
    const int tiles = (p.keys + 63) / 64;
    u64(&tile_rows)[2][64] = shared.rows[warp];
    for (int pair = warp; 2 * pair < tiles; pair += kBitsWarps) {
      const LimitTiles limits = limit_of(p, limit, row_block, pair / 16);
      const u32 touched = limits.touched >> 2 * pair % 32 & 3;
      if (touched == 0) continue;
      read_tiles(pair, tile_rows, touched >> piece / 4 & 1);
      __syncwarp();
      if (touched & 1) settle(2 * pair, tile_rows[0], limits);
      if (touched & 2 && 2 * pair + 1 < tiles) settle(2 * pair + 1, tile_rows[1], limits);
      __syncwarp();
    }
    __syncthreads();
    if (warp == 0)
      write_steps(p, shared.tiles, index, 0, [&](int, int tile) { return first_pattern() + shared.patterns[tile]; });
  }
};

// Grid: {row_blocks, groups}. Writes planned, steps and the row blocks' own patterns.
extern "C" __global__ void __launch_bounds__(32 * kBitsWarps, 2)
    plan_bits_kernel(const __grid_constant__ DeviceTable p) {
  __shared__ BitsShared shared;
  allow_next_grid();
  for (int w = static_cast<int>(threadIdx.x); w < p.words; w += 32 * kBitsWarps)
    shared.tiles.touched[w] = shared.tiles.partial[w] = 0;
  if (threadIdx.x == 0) shared.used = 0;
  __syncthreads();
  const int row_block = static_cast<int>(blockIdx.x), index = static_cast<int>(blockIdx.y) * p.row_blocks + row_block;
  const TableSource source = p.sources[blockIdx.y];
  const long long first = source.item * p.item_stride + source.head * p.head_stride + 64 * row_block * p.row_stride;
  const auto* allowed = static_cast<const unsigned char*>(p.data) + first;
  const bool aligned = (reinterpret_cast<unsigned long long>(allowed) | static_cast<u64>(p.row_stride)) % 16 == 0;
  BitsRow{p, shared, allowed, row_block, index, source.limit, aligned}.run();
}

}  // namespace stof::cuda
