// SPDX-License-Identifier: Apache-2.0
// Plans a mask of one byte or one bit a pair: every tile is read once, settled as empty, full or partial, and where it
// is partial written as words in register order.
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

template <int kTiles>
struct BitsShared {
  RowTiles tiles;
  unsigned short patterns[DeviceTable::kMostKeys / 64];  // of partial tiles: which of the row block's own
  int used;                                              // of these, also beyond what there is room for
  u64 rows[kBitsWarps][kTiles][64];                      // of the tiles that a warp works on, bit j for key j
};

// Where a row block's rows lie.
struct TableRows {
  const unsigned char* first;
  long long stride;  // in bytes
  int rows, keys;
  bool aligned;  // rows can be read 16 bytes at a time
};

// A byte a pair.
struct PairBytes : TableRows {
  static constexpr int kTiles = 2;

  // 16 keys of a row, wherever they lie.
  __device__ __forceinline__ u32 read_slowly(int row, int key) const {
    const unsigned char* from = first + row * stride + key;
    u32 bits = 0;
#pragma unroll 1
    for (int i = 0; i < 16; ++i)
      if (key + i < keys && from[i]) bits |= 1u << i;
    return bits;
  }

  // Tiles from `tile` on, by a warp: 8 lanes a row, 4 rows at a time, all 16 loads on their way together.
  __device__ __forceinline__ void read(int tile, u64 (&tile_rows)[kTiles][64], u32 wanted) const {
    constexpr int kLoads = 16;
    const int lane = static_cast<int>(threadIdx.x) % 32, piece = lane % 8, key = 64 * tile + 16 * piece;
    const int own_rows = wanted >> piece / 4 & 1 ? rows : 0;
    auto* const pieces = reinterpret_cast<unsigned short*>(tile_rows[piece / 4]) + piece % 4;
    if (aligned && 64 * (tile + kTiles) <= keys) {
      uint4 bytes[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int row = 4 * i + lane / 8;
        bytes[i] = make_uint4(0, 0, 0, 0);
        if (row < own_rows) bytes[i] = __ldcs(reinterpret_cast<const uint4*>(first + row * stride + key));
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
};

// A bit a pair, the first key's lowest.
struct PairBits : TableRows {
  static constexpr int kTiles = 4;

  // A row of a tile, wherever it lies; what is behind the last key does not matter.
  __device__ __forceinline__ u64 read_slowly(int row, int tile) const {
    const unsigned char* from = first + row * stride + 8 * tile;
    const int left = keys - 64 * tile;
    u64 bits = 0;
#pragma unroll 1
    for (int i = 0; i < 8; ++i)
      if (8 * i < left) bits |= static_cast<u64>(from[i]) << 8 * i;
    return left >= 64 ? bits : left <= 0 ? 0 : bits & ((1ull << left) - 1);
  }

  // Tiles from `tile` on, by a warp: 2 lanes a row, whole sectors of the cache, 4 loads on their way together.
  __device__ __forceinline__ void read(int tile, u64 (&tile_rows)[kTiles][64], u32 wanted) const {
    constexpr int kLoads = 4;
    const int lane = static_cast<int>(threadIdx.x) % 32, pair = lane % 2;
    if (aligned && 64 * (tile + kTiles) <= keys) {
      const int own_rows = wanted >> 2 * pair & 3 ? rows : 0;
      uint4 bits[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int row = 16 * i + lane / 2;
        bits[i] = make_uint4(0, 0, 0, 0);
        if (row < own_rows) bits[i] = __ldcs(reinterpret_cast<const uint4*>(first + row * stride + 8 * tile) + pair);
      }
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        tile_rows[2 * pair][16 * i + lane / 2] = bits[i].x | static_cast<u64>(bits[i].y) << 32;
        tile_rows[2 * pair + 1][16 * i + lane / 2] = bits[i].z | static_cast<u64>(bits[i].w) << 32;
      }
      return;
    }
#pragma unroll 1
    for (int row = lane; row < 64 * kTiles; row += 32) {
      const int t = row / 64;
      tile_rows[t][row % 64] = row % 64 < rows && wanted >> t & 1 ? read_slowly(row % 64, tile + t) : 0;
    }
  }
};

// One CTA's row block.
template <class Pairs>
struct BitsRow {
  const DeviceTable& p;
  BitsShared<Pairs::kTiles>& shared;
  Pairs pairs;
  int row_block, index;  // of the head, of all groups
  int limit;

  __device__ __forceinline__ int rows() const { return pairs.rows; }
  __device__ __forceinline__ int first_pattern() const { return p.first_own_pattern + index * p.room; }

  // By a warp: rows that do not exist are as the last one, as the host arranges them.
  __device__ __forceinline__ void fill_up(u64 (&tile_rows)[64]) const {
    for (int row = static_cast<int>(threadIdx.x) % 32; row < 64; row += 32)
      if (row >= rows()) tile_rows[row] = tile_rows[rows() - 1];
    __syncwarp();
  }

  // By a warp, of the rows of one tile.
  __device__ __forceinline__ void settle(int tile, const u64 (&tile_rows)[64], const LimitTiles& limits) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, keys = p.keys - 64 * tile;
    const u64 all = keys >= 64 ? ~0ull : (1ull << keys) - 1, upper = tile_rows[lane], lower = tile_rows[lane + 32];
    if (!__any_sync(~0u, (upper | lower) != 0)) return;
    const bool limited = limits.partial >> tile % 32 & 1;
    const bool full = __all_sync(~0u, upper == all && lower == all);
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
    constexpr int kTiles = Pairs::kTiles;
    const int warp = uniform(static_cast<int>(threadIdx.x) / 32), tiles = (p.keys + 63) / 64;
    u64(&tile_rows)[kTiles][64] = shared.rows[warp];
    for (int tile = kTiles * warp; tile < tiles; tile += kTiles * kBitsWarps) {
      const LimitTiles limits = limit_of(p, limit, row_block, tile / 32);
      const u32 touched = limits.touched >> tile % 32 & ((1u << kTiles) - 1);
      if (touched == 0) continue;
      pairs.read(tile, tile_rows, touched);
      __syncwarp();
#pragma unroll 1
      for (int i = 0; i < kTiles && tile + i < tiles; ++i)
        if (touched >> i & 1) {
          if (rows() < 64) fill_up(tile_rows[i]);
          settle(tile + i, tile_rows[i], limits);
        }
      __syncwarp();
    }
    __syncthreads();
    if (warp == 0)
      write_steps(p, shared.tiles, index, 0, [&](int, int tile) { return first_pattern() + shared.patterns[tile]; });
  }
};

template <class Pairs>
__device__ __forceinline__ void plan_pairs(const DeviceTable& p) {
  __shared__ BitsShared<Pairs::kTiles> shared;
  allow_next_grid();
  for (int w = static_cast<int>(threadIdx.x); w < p.words; w += 32 * kBitsWarps)
    shared.tiles.touched[w] = shared.tiles.partial[w] = 0;
  if (threadIdx.x == 0) shared.used = 0;
  __syncthreads();
  const int row_block = static_cast<int>(blockIdx.x), index = static_cast<int>(blockIdx.y) * p.row_blocks + row_block;
  const TableSource source = p.sources[blockIdx.y];
  const long long offset = source.item * p.item_stride + source.head * p.head_stride + 64 * row_block * p.row_stride;
  const auto* first = static_cast<const unsigned char*>(p.data) + offset;
  const bool aligned = (reinterpret_cast<unsigned long long>(first) | static_cast<u64>(p.row_stride)) % 16 == 0;
  const TableRows rows{first, p.row_stride, min(64, p.queries - 64 * row_block), p.keys, aligned};
  BitsRow<Pairs>{p, shared, {rows}, row_block, index, source.limit}.run();
}

// Grid: {row_blocks, groups}. They write planned, steps and the row blocks' own patterns.
extern "C" __global__ void __launch_bounds__(32 * kBitsWarps, 2)
    plan_bits_kernel(const __grid_constant__ DeviceTable p) {
  plan_pairs<PairBytes>(p);
}
extern "C" __global__ void __launch_bounds__(32 * kBitsWarps, 2)
    plan_packed_kernel(const __grid_constant__ DeviceTable p) {
  plan_pairs<PairBits>(p);
}

}  // namespace stof::cuda
