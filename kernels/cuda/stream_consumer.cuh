// SPDX-License-Identifier: Apache-2.0
// One warpgroup and its 64 rows: scores, softmax, values, step by step, then the finished rows.
#pragma once
#include "kernels/cuda/stream_traits.cuh"

namespace stof::cuda {

template <class Traits>
struct StreamConsumer {
  using Team = typename Traits::Team;
  using Element = typename Traits::Element;
  static constexpr int kHeadDim = Traits::kHeadDim, kKeys = Traits::kKeys, kTiles = Traits::kTiles;
  enum class StepKind { unused, partial, full };

  Team& team;
  const AttentionMaps& maps;
  const StreamParams& p;
  int part, barrier_id, thread, warp, lane;

  RingPlace<Traits::kStages> ring;  // the step at hand
  RingPlace<Traits::kStages> held;  // the step whose weights wait for their values
  StepKind kind;                    // of the step at hand, with its words
  int left;                         // steps from it on
  int keys;                         // of the slice
  bool holds;
  int held_for;  // steps that passed since
  float scores[kKeys / 2], out[kHeadDim / 2];
  u32 weights[kKeys / 4], words[kTiles];
  RowStats rows;
  float factor[2];
  bool raised;
  u32 q, k, v;     // descriptors: of the row block, of the step at hand, of the held step
  int to_release;  // slot of q whose output may still be on its way, or -1

  __device__ __forceinline__ StreamConsumer(Team& team, const AttentionMaps& maps, const StreamParams& p, int group)
      : team(team), maps(maps), p(p) {
    part = group % Traits::kParts;
    barrier_id = 1 + group;
    thread = static_cast<int>(threadIdx.x) % 128;
    warp = uniform(thread / 32);
    lane = thread % 32;
    to_release = -1;
  }

  __device__ __forceinline__ void run() {
    for (int turn = 0;; ++turn) {
      const int slot = turn & 1;
      barrier_wait(shared_address(&team.q_full[slot]), turn >> 1 & 1);
      const int steps = uniform(team.blocks[slot].steps);
      if (steps < 0) break;
      attend(slot, steps);
      release_q();
      finish(slot);
      to_release = slot;
    }
    if (lane == 0) wait_stores_read();
  }

 private:
  __device__ __forceinline__ void attend(int slot, int steps) {
    rows.reset();
#pragma unroll
    for (int i = 0; i < kHeadDim / 2; ++i) out[i] = 0.f;
    q = static_cast<u32>(uniform(static_cast<int>(descriptor(shared_address(team.q[slot][part])))));
    keys = team.blocks[slot].keys;
    holds = false;
    left = steps;
    if (left > 0) look_at_step(ring);
    while (left > 0) {
      if (kind == StepKind::unused) skip();
      else if (!holds) first_step();
      else if (kind == StepKind::partial) step<true>();
      else step<false>();
      release_q();
    }
    if (holds) flush();
  }

  // Waits for the step's keys and reads what of them is needed.
  __device__ __forceinline__ void look_at_step(const RingPlace<Traits::kStages>& at) {
    barrier_wait(shared_address(&team.k_full[at.stage]), at.parity);
    k = static_cast<u32>(
        uniform(static_cast<int>(descriptor(shared_address(team.k[0])) + at.stage * (Traits::kTileBytes / 16))));
    bool used = false, whole = true;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const int start = team.steps[at.stage][tile][0], state = uniform(team.steps[at.stage][tile][1 + part]);
      used |= state != TileState::kUnused;
      whole &= state == TileState::kFull;
      words[tile] = state == TileState::kFull ? ~0u : 0u;
      if (state >= 0) words[tile] = team.words[at.stage][part][tile][thread];
      if (uniform(start) + 64 > keys) {
        whole = false;
        words[tile] &= keys_below(keys - start, lane);
      }
    }
    kind = !used ? StepKind::unused : whole ? StepKind::full : StepKind::partial;
  }

  // To the next step, if there is one: called where something else is still on its way.
  __device__ __forceinline__ void advance() {
    ring.advance();
    if (--left > 0) look_at_step(ring);
  }

  __device__ __forceinline__ void issue_held_values() { issue_values<Element, kHeadDim, kKeys>(out, weights, v); }
  __device__ __forceinline__ void release(u64& barrier) {
    if (lane == 0) barrier_arrive(shared_address(&barrier));
  }
  // The weights of the step at `place` wait for its values.
  __device__ __forceinline__ void hold(const RingPlace<Traits::kStages>& place) {
    if (raised) rescale(out, factor);
    pack_weights<Element>(weights, scores);
    holds = true;
    held = place;
    held_for = 0;
    v = static_cast<u32>(uniform(static_cast<int>(descriptor(shared_address(team.v[0]), kKeys * kRowBytes) +
                                                  place.stage * (Traits::kTileBytes / 16))));
  }

  // Nothing is held: the first step of a row block, or the first after values had to be flushed.
  __device__ __forceinline__ void first_step() {
    const RingPlace<Traits::kStages> place = ring;
    issue_scores<Element, kHeadDim, kKeys>(scores, q, k);
    matmul_wait<0>();
    pin(scores);
    release(team.k_empty[place.stage]);
    forbid(scores, words);
    raised = weigh<true>(scores, rows, factor, p.call.scale_log2);
    advance();
    hold(place);
  }

  // Scores of this step are on their way before the values of the last one: softmax runs beside the latter. Looking at
  // the next step before the wait is also what keeps the exponentials there: the assembler moves them past a wait, but
  // not past the branches of a barrier.
  template <bool kMasked>
  __device__ __forceinline__ void step() {
    const RingPlace<Traits::kStages> place = ring;
    issue_scores<Element, kHeadDim, kKeys>(scores, q, k);
    barrier_wait(shared_address(&team.v_full[held.stage]), held.parity);
    issue_held_values();
    matmul_wait<1>();
    pin(scores);
    release(team.k_empty[place.stage]);
    if constexpr (kMasked) forbid(scores, words);
    raised = weigh<kMasked>(scores, rows, factor, p.call.scale_log2);
    pin(scores);
    advance();
    matmul_wait<0>();
    pin(out);
    release(team.v_empty[held.stage]);
    hold(place);
  }

  __device__ __forceinline__ void flush() {
    barrier_wait(shared_address(&team.v_full[held.stage]), held.parity);
    issue_held_values();
    matmul_wait<0>();
    pin(out);
    release(team.v_empty[held.stage]);
    holds = false;
  }

  // A step that only other warpgroups need. Values that this one holds must not keep the loader from bringing the
  // step's own, which come into the same place after a whole round.
  __device__ __forceinline__ void skip() {
    if (holds && ++held_for >= Traits::kStages) flush();
    barrier_wait(shared_address(&team.v_full[ring.stage]), ring.parity);
    release(team.k_empty[ring.stage]);
    release(team.v_empty[ring.stage]);
    advance();
  }

  // The output of the row block before has left shared memory: its q may be overwritten.
  __device__ __forceinline__ void release_q() {
    if (to_release < 0) return;
    if (lane == 0) {
      wait_stores_read();
      barrier_arrive(shared_address(&team.q_empty[to_release]));
    }
    to_release = -1;
  }

  __device__ __forceinline__ void finish(int slot) {
    const RowBlock block = team.blocks[slot];
    rows.sum_over_columns();
    if (uniform(block.split)) {
      const SplitRows<kHeadDim> split(p, block, part, Traits::kParts);
      split.publish(out, rows, thread);
      named_barrier<128>(barrier_id);
      if (thread == 0) team.last[part] = split.arrive_last();
      named_barrier<128>(barrier_id);
      if (!team.last[part]) return;
      split.merge(out, rows, thread, p.call.scale_log2);
    }
    named_barrier<128>(barrier_id);  // every warp is done with q, which out leaves through
    const int row = uniform(block.row) + 64 * part + 16 * warp;
    const float inverse[2] = {rows.sum[0] > 0.f ? 1.f / rows.sum[0] : 0.f, rows.sum[1] > 0.f ? 1.f / rows.sum[1] : 0.f};
    write_lse(p.call, block, rows, row);
    if (row + 16 <= uniform(block.rows))
      write_rows<Element, kHeadDim>(maps.out, block, out, inverse, row,
                                    shared_address(team.q[slot][part]) + static_cast<u32>(warp) * (16 * kRowBytes));
    else write_some_rows<Element, kHeadDim>(p.call, block, out, inverse, row);
  }
};

}  // namespace stof::cuda
