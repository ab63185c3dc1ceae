// SPDX-License-Identifier: Apache-2.0
// One row block of a mask that is planned on the device: the tiles that it touches, as bits in shared memory, and the
// steps that a warp makes of them.
#pragma once
#include "kernels/cuda/ptx.cuh"
#include "kernels/shared/device_table.h"

namespace stof::cuda {

constexpr int kMostTileWords = DeviceTable::kMostKeys / 64 / 32;

// Bit t % 32 of word t / 32 is tile t.
struct RowTiles {
  u32 touched[kMostTileWords];
  u32 partial[kMostTileWords];
};

__device__ __forceinline__ LimitTiles limit_of(const DeviceTable& p, int limit, int row_block, int word) {
  if (!p.limits) return {~0u, 0u, 0};
  return p.limits[(static_cast<long long>(limit) * p.row_blocks + row_block) * p.words + word];
}

// The pattern of a tile that the limiting mask makes partial.
__device__ __forceinline__ int pattern_of(const DeviceTable& p, const LimitTiles& limit, int tile) {
  return p.patterns[limit.first_pattern + __popc(limit.partial & ((1u << tile % 32) - 1))];
}

// Tiles that need a look at their state: partial ones, and the one that reaches past the keys.
__device__ __forceinline__ u32 special_tiles(const DeviceTable& p, u32 partial, int word) {
  const int tail = p.keys / 64;
  return p.keys % 64 != 0 && tail / 32 == word ? partial | 1u << tail % 32 : partial;
}

// Sums over the lanes before this one, and over all.
struct LaneSums {
  int before, all;
};
__device__ __forceinline__ LaneSums sum_over_lanes(int value) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int through = value;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(~0u, through, step);
    if (lane >= step) through += other;
  }
  return {through - value, __shfl_sync(~0u, through, 31)};
}

// By one warp: special tiles first, then whole ones, both in ascending order, the order of the host's arrangement.
// pattern(word, tile) is asked for partial tiles. `index` counts the row blocks of all groups.
template <class Pattern>
__device__ __forceinline__ void write_steps(const DeviceTable& p, const RowTiles& tiles, int index, int ignored,
                                            const Pattern& pattern) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int special = 0, whole = 0;
  for (int w = lane; w < p.words; w += 32) {
    const u32 touched = tiles.touched[w], first = touched & special_tiles(p, tiles.partial[w], w);
    special += __popc(first), whole += __popc(touched & ~first);
  }
  special = __reduce_add_sync(~0u, special), whole = __reduce_add_sync(~0u, whole);
  const int count = special + whole;
  const bool fits = count <= p.room;
  // The last steps need no look at their states once a tile has been used.
  const int full_steps = special == 0 && whole > 0 ? whole - 1 : whole;
  if (lane == 0) p.planned[index] = {fits ? count : -1, full_steps, count, ignored};
  if (!fits) return;
  int2* const steps = reinterpret_cast<int2*>(p.steps) + static_cast<long long>(index) * p.room;
  int next_special = 0, next_whole = special;
  for (int first_word = 0; first_word < p.words; first_word += 32) {  // a lane's own word at a time
    const int w = first_word + lane;
    const u32 touched = w < p.words ? tiles.touched[w] : 0, partial = w < p.words ? tiles.partial[w] : 0;
    const u32 early = touched & special_tiles(p, partial, w);
    const LaneSums specials = sum_over_lanes(__popc(early)), wholes = sum_over_lanes(__popc(touched & ~early));
    int at_special = next_special + specials.before, at_whole = next_whole + wholes.before;
    for (u32 rest = touched; rest != 0; rest &= rest - 1) {
      const int bit = __ffs(static_cast<int>(rest)) - 1, tile = 32 * w + bit;
      const int at = early >> bit & 1 ? at_special++ : at_whole++;
      steps[at] = make_int2(64 * tile, partial >> bit & 1 ? pattern(w, tile) : TileState::kFull);
    }
    next_special += specials.all, next_whole += wholes.all;
  }
}

}  // namespace stof::cuda
