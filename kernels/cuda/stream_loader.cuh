// SPDX-License-Identifier: Apache-2.0
// The loading lane of a team: takes row blocks from the queue, and brings q, keys, values and mask words, running ahead
// of the consumers by as many steps as the ring has, across row blocks.
#pragma once
#include "kernels/cuda/stream_traits.cuh"

namespace stof::cuda {

template <class Traits>
struct StreamLoader {
  using Team = typename Traits::Team;
  Team& team;
  const AttentionMaps& maps;
  const StreamParams& p;
  RingPlace<Traits::kStages> ring;

  __device__ __forceinline__ void run(int first, int teams) {
    const int total = p.call.shape.slices * p.layout.item_count;
    int turn = 0;
    if (p.call.shape.query_lengths) wait_for_previous_grid();  // which may have made them
    for (int index = first; index < total; index = p.queue ? teams + atomicAdd(p.queue, 1) : index + teams)
      if (load_row_block(index, turn & 1, turn >> 1)) ++turn;
    wait_for_previous_grid();
    const int slot = turn & 1;
    barrier_wait(shared_address(&team.q_empty[slot]), ~(turn >> 1) & 1);
    team.blocks[slot].steps = -1;
    barrier_arrive(shared_address(&team.q_full[slot]));
    if (p.queue && atomicAdd(p.queue + 1, 1) == teams - 1) p.queue[0] = p.queue[1] = 0;
  }

 private:
  // Sections of slices go through the items side by side.
  __device__ __forceinline__ RowBlock row_block(int index, StreamItem& item) const {
    const int per_section = p.layout.item_count * p.section;
    const int section = index / per_section, within = index - section * per_section;
    const int width = min(p.section, p.call.shape.slices - section * p.section);
    const int entry = within / width, slice = section * p.section + within - entry * width;
    item = p.layout.items[entry];
    RowBlock block = row_block_of(p.call.shape, slice, item.row);
    block.steps = item.steps, block.full_steps = item.full_steps, block.split = item.split;
    return block;
  }

  // Of a shorter item: steps of which some key exists. Full ones may reach past its end.
  __device__ __forceinline__ int steps_below(int keys, const StreamItem& item) const {
    const int* step = p.layout.steps + item.first_step * Traits::kStepInts;
    int count = 0;
#pragma unroll 4
    for (int n = 0; n < item.steps; ++n) count += exists(step + n * Traits::kStepInts, keys);
    return count;
  }
  static __device__ __forceinline__ bool exists(const int* step, int keys) {
    bool any = false;
#pragma unroll
    for (int tile = 0; tile < Traits::kTiles; ++tile) any |= __ldg(step + tile * (1 + Traits::kParts)) < keys;
    return any;
  }

  // False: the row block has no row of the item.
  __device__ __forceinline__ bool load_row_block(int index, int slot, int round) {
    StreamItem item;
    RowBlock block = row_block(index, item);
    if (block.row >= block.rows || block.row + Traits::kRows <= 0) return false;
    const bool shorter = block.keys < p.call.shape.keys;
    if (shorter) block.steps = steps_below(block.keys, item), block.full_steps = 0;
    const u32 full = shared_address(&team.q_full[slot]);
    barrier_wait(shared_address(&team.q_empty[slot]), ~round & 1);
    wait_for_previous_grid();  // its results may be q, k and v; it may still use the queue
    team.blocks[slot] = block;
    barrier_expect(full, Traits::kParts * Traits::kPartBytes);
#pragma unroll
    for (int part = 0; part < Traits::kParts; ++part)
#pragma unroll
      for (int box = 0; box < Traits::kBoxes; ++box)
        load_box(shared_address(team.q[slot][part]) + box * (64 * kRowBytes), maps.q,
                 {box * kBoxColumns, block.place.query_start + block.row + 64 * part, block.residue, block.head,
                  block.place.item},
                 full);
    const int kv_head = block.head / p.call.shape.heads_per_kv;
    const int* step = p.layout.steps + item.first_step * Traits::kStepInts;
    for (int n = 0; n < item.steps; ++n, step += Traits::kStepInts) {
      if (shorter && !exists(step, block.keys)) continue;
      load_step(step, {0, block.place.key_start, block.residue, kv_head, block.place.item}, block.keys);
      ring.advance();
    }
    return true;
  }

  // at: key 0.
  __device__ __forceinline__ void load_step(const int* step, const Place& at, int keys) {
    const u32 stage = ring.stage;
    const u32 k_full = shared_address(&team.k_full[stage]), v_full = shared_address(&team.v_full[stage]);
    int entries[Traits::kTiles][1 + Traits::kParts];
    u32 word_bytes = 0;
#pragma unroll
    for (int i = 0; i < Traits::kStepInts; ++i) {
      const int value = __ldg(step + i);
      entries[i / (1 + Traits::kParts)][i % (1 + Traits::kParts)] = value;
      if (i % (1 + Traits::kParts) && value >= 0) word_bytes += 512;
    }
    barrier_wait(shared_address(&team.k_empty[stage]), ring.parity ^ 1);
#pragma unroll
    for (int tile = 0; tile < Traits::kTiles; ++tile)
#pragma unroll
      for (int i = 0; i <= Traits::kParts; ++i) {
        const bool tail = i > 0 && entries[tile][i] != TileState::kUnused && entries[tile][0] + 64 > keys;
        team.steps[stage][tile][i] = entries[tile][i] + (tail ? kTailState : 0);
      }
    barrier_expect(k_full, Traits::kTileBytes + word_bytes);
#pragma unroll
    for (int tile = 0; tile < Traits::kTiles; ++tile) {
      load_tile(shared_address(team.k[stage]), maps.k, moved(at, entries[tile][0]), tile, k_full);
#pragma unroll
      for (int part = 0; part < Traits::kParts; ++part)
        if (entries[tile][1 + part] >= 0)
          load_bytes(shared_address(team.words[stage][part][tile]), p.layout.words + entries[tile][1 + part] * 128, 512,
                     k_full);
    }
    barrier_wait(shared_address(&team.v_empty[stage]), ring.parity ^ 1);
    barrier_expect(v_full, Traits::kTileBytes);
#pragma unroll
    for (int tile = 0; tile < Traits::kTiles; ++tile)
      load_tile(shared_address(team.v[stage]), maps.v, moved(at, entries[tile][0]), tile, v_full);
  }

  static __device__ __forceinline__ Place moved(Place at, int rows) {
    at.row += rows;
    return at;
  }

  static __device__ __forceinline__ void load_tile(u32 target, const TensorMap& map, Place at, int tile, u32 barrier) {
#pragma unroll
    for (int box = 0; box < Traits::kBoxes; ++box) {
      at.column = box * kBoxColumns;
      load_box(target + (box * Traits::kTiles + tile) * (64 * kRowBytes), map, at, barrier);
    }
  }
};

}  // namespace stof::cuda
