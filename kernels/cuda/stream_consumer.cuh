// SPDX-License-Identifier: Apache-2.0
// One warpgroup and its 64 rows: scores, softmax, values, step by step, then the finished rows.
#pragma once
#include "kernels/cuda/span_words.cuh"
#include "kernels/cuda/step_bias.cuh"
#include "kernels/cuda/warp_scores.cuh"

namespace stof::cuda {

template <class Traits>
struct StreamConsumer {
  using Team = typename Traits::Team;
  using Element = typename Traits::Element;
  static constexpr int kHeadDim = Traits::kHeadDim, kKeys = Traits::kKeys, kTiles = Traits::kTiles;
  Team& team;
  const AttentionMaps& maps;
  const typename Traits::Params& p;
  int part, rank, barrier_id, team_barrier_id, thread, warp, lane;

  RingPlace<Traits::kKeyStages> ring;  // the step at hand
  RingPlace<Traits::kStages> apart;    // its values, where keys have a ring of their own
  RingPlace<Traits::kStages> held;     // the values of the step whose weights wait for them
  bool holds, at_last;                 // at_last: at the last step, which all parts need
  float scores[kKeys / 2], out[kHeadDim / 2];
  u32 weights[kKeys / 4], words[kTiles];
  RowStats rows;
  float origins[2];  // that hold_origins has
  SpanWords<Traits> span_words;
  u32 q;  // descriptor
  RowsBias<Traits> bias;
  int to_release;  // slot of q whose output may still be on its way, or -1; of two

  __device__ __forceinline__ StreamConsumer(Team& team, const AttentionMaps& maps, const typename Traits::Params& p,
                                            int group)
      : team(team), maps(maps), p(p) {
    part = group % Traits::kParts;
    rank = group % Traits::kGroups;
    barrier_id = 1 + group;
    team_barrier_id = 1 + Traits::kConsumers + group / Traits::kTeamSize;
    thread = static_cast<int>(threadIdx.x) % 128;
    warp = uniform(thread / 32);
    lane = thread % 32;
    to_release = -1;
  }

  __device__ __forceinline__ void run() {
    for (int turn = 0;; ++turn) {
      const int slot = turn & 1, query = slot & (Traits::kQueries - 1);
      barrier_wait(shared_address(&team.q_full[query]), turn >> (Traits::kQueries - 1) & 1);
      const int steps = uniform(team.blocks[slot].steps);
      if (steps < 0) break;
      attend(slot, steps, steps - uniform(team.blocks[slot].full_steps));
      release_q();
      rows.sum_over_columns();
      if (Traits::kGroups == 1 || gather(steps)) finish(slot);
      if constexpr (Traits::kQueries > 1) to_release = slot;
    }
    if (elected()) wait_stores_read();
  }

 private:
  // `listed` steps whose states must be read, then steps that are full for every part. Groups take them in turns.
  __device__ __forceinline__ void attend(int slot, int steps, int listed) {
    rows.reset();
#pragma unroll
    for (int i = 0; i < kHeadDim / 2; ++i) out[i] = 0.f;
    q = descriptor(shared_address(team.q[slot & (Traits::kQueries - 1)][part]));
    holds = at_last = false;
    bias.find(p, team.blocks[slot], 64 * part + 16 * warp);
    if constexpr (Traits::kSelects)
      if (p.spans.parts > 0 && listed > 0) span_words.find(p, team.blocks[slot], my_rows());
    RingPlace<Traits::kKeyStages> next_block = ring;
    if constexpr (Traits::kGroups > 1) {
      next_block.advance(static_cast<u32>(steps));
      ring.advance(static_cast<u32>(rank));
    }
    int n = rank;
    for (; n < listed || (n < steps && !holds); n += Traits::kGroups, next_step()) {
      barrier_wait(shared_address(&team.k_full[ring.stage]), ring.parity);
      if (!read_step(slot)) skip(slot);
      else if (!holds) first_step(slot);
      else settle<true>(step<true>());
      if (n == rank) release_q();
    }
    // The loop within takes a trusted step after the other: what is rare must not cost it registers. Its end is as each
    // lane reads it: from what the warp agrees on the assembler makes a branch in uniform registers, which takes two to
    // six instructions a step.
    const int end = team.blocks[slot].steps - Traits::kGroups;
    for (; n < steps; n += Traits::kGroups, next_step()) {
      bool trusted;
      at_last = n >= end;
      if constexpr (Traits::kSelects) hold_origins();
      while ((trusted = step<false>()) && !at_last) {
        settle<false>(true);
        n += Traits::kGroups, next_step();
        at_last = n >= end;
      }
      settle<false>(trusted);
    }
    if (Traits::kQueries == 1 && !at_last) release(team.q_empty[0]);
    if (holds) flush();
    if constexpr (Traits::kGroups > 1) ring = next_block;
  }

  __device__ __forceinline__ void next_step() {
    if constexpr (Traits::kGroups > 1) ring.advance(Traits::kGroups);
    else ring.advance();
    if constexpr (Traits::kApart) apart.advance();
  }
  __device__ __forceinline__ const RingPlace<Traits::kStages>& values() const {
    if constexpr (Traits::kApart) return apart;
    else return ring;
  }

  // The words of this part's scores; false when it needs none of the step. Rows that have their first scores here could
  // not trust their weights, so that the warp would multiply again (settle): with nothing held, the step looks for
  // maxima.
  __device__ __forceinline__ bool read_step(int slot) {
    const int keys = team.blocks[slot].keys;
    bool used = false;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const int* const entry = team.steps[ring.stage][tile];
      const int first = entry[0];  // beside the state: one wait for both
      int state = uniform(entry[1 + part]);
      const bool marked = state >= kMarkedState - 2;
      if (marked) state -= kMarkedState;
      used |= state != TileState::kUnused;
      words[tile] = state == TileState::kFull ? ~0u : 0u;
      if (state >= 0) words[tile] = words_of_cut(slot, tile, state, first & TileMark::kKey);
      if (marked) {
        const int marks = uniform(first), end = keys - (marks & TileMark::kKey);
        words[tile] &= keys_below(end, lane);
        if ((marks & TileMark::kOthersBehind) != 0 && end < 64 && (kTiles == 1 || end > 0)) clear_values(tile, end);
        if ((marks & TileMark::kLate) != 0 && holds) flush();
      }
    }
    return used;
  }

  // The layout's, or by what each row is allowed of the tile from `key` on.
  __device__ __forceinline__ u32 words_of_cut(int slot, int tile, int state, int key) const {
    if constexpr (Traits::kSelects)
      if (p.spans.parts > 0) return span_words.of_tile(p, team.blocks[slot], my_rows(), key, state);
    return team.words[values().stage][part][tile][thread];
  }
  __device__ __forceinline__ RowsOfThread my_rows() const { return {part, 16 * warp + lane / 4, lane}; }

  // What lies behind the last key must not reach the result: its weight is 0, but 0 times NaN is NaN. Every part that
  // multiplies the tile writes the same zeros, also where it has no key of it: the others may be late.
  __device__ __forceinline__ void clear_values(int tile, int end) {
    wait_for_values();
    constexpr int kPieces = kRowBytes / 16;
    const int first = max(end, 0) * kPieces;
#pragma unroll
    for (int box = 0; box < Traits::kBoxes; ++box) {
      uint4* pieces = reinterpret_cast<uint4*>(team.v[values().stage] + (box * kTiles + tile) * (64 * kRowBytes));
      for (int i = first + thread; i < 64 * kPieces; i += 128) pieces[i] = make_uint4(0, 0, 0, 0);
    }
    fence_async_proxy();
    named_barrier<128>(barrier_id);
  }

  // Of the step at hand. After skipped steps this warpgroup may still hold the values of a whole round before, which
  // lie where the loader wants to bring these.
  __device__ __forceinline__ void wait_for_values() {
    if (holds && held.stage == values().stage) flush();
    barrier_wait(shared_address(&team.v_full[values().stage]), values().parity);
  }

  __device__ __forceinline__ u32 keys_at_hand() const {  // descriptor
    return descriptor(shared_address(team.k[0])) + ring.stage * (Traits::kTileBytes / 16);
  }
  __device__ __forceinline__ void issue_q_k() { issue_scores<Element, kHeadDim, kKeys>(scores, q, keys_at_hand()); }
  __device__ __forceinline__ void issue_held_values() {
    issue_values<Element, kHeadDim, kKeys>(
        out, weights,
        descriptor(shared_address(team.v[0]), kKeys * kRowBytes) + held.stage * (Traits::kTileBytes / 16));
  }
  // After an instruction that the whole warp executes together, since every lane must have read the step's state.
  __device__ __forceinline__ void release(u64& barrier) { arrive_for_warp(shared_address(&barrier), lane == 0); }
  __device__ __forceinline__ void hold() {
    pack_weights<Element>(weights, scores);
    holds = true;
    held = values();
  }
  // Of scores as they leave the matmul: what is forbidden is -inf behind it, which no softcap brings back.
  __device__ __forceinline__ void change_scores(const StepBias<Traits>& of_step) {
    if constexpr (Traits::kCapped) to_tanh(scores, p.call.cap_log2);
    of_step.add_to(scores, p);
  }
  // Raises the reference maxima where the scores are above them; no values may be on their way to out.
  __device__ __forceinline__ void weigh_and_rescale() {
    float factor[2];
    if (weigh<true>(scores, rows, factor, p.call.scale_log2)) rescale(out, factor);
  }

  __device__ __forceinline__ void let_next_part_begin(int slot) const {
    if (Traits::kInOrder && part == 0 && thread == 0) team.scored = team.numbers[slot];
  }

  __device__ __forceinline__ void first_step(int slot) {
    if (Traits::kInOrder && part > 0)
      while (team.scored < team.numbers[slot]) continue;
    issue_q_k();
    StepBias<Traits> of_step;
    of_step.load(p, bias, team.steps[ring.stage], lane);
    matmul_wait<0>();
    pin(scores);
    let_next_part_begin(slot);
    release(team.k_empty[ring.stage]);
    change_scores(of_step);
    forbid(scores, words);
    weigh_and_rescale();
    hold();
  }

  // For steps until the reference maxima change. In kernels that select row blocks the assembler left many loops two
  // registers of one bank (pair_up), where in others it has each read once for many.
  __device__ __forceinline__ void hold_origins() {
    origins_of(rows, p.call.scale_log2, origins);
    force_pair(origins);
  }

  // Scores of this step are on their way before the values of the last one. Whether the weights are to be trusted; only
  // settle() knows then whether the keys are needed again. Who has read a mask has waited for the keys.
  template <bool kMasked>
  __device__ __forceinline__ bool step() {
    if constexpr (!kMasked) barrier_wait(shared_address(&team.k_full[ring.stage]), ring.parity);
    issue_q_k();
    barrier_wait(shared_address(&team.v_full[held.stage]), held.parity);
    issue_held_values();
    StepBias<Traits> of_step;
    of_step.load(p, bias, team.steps[ring.stage], lane);
    matmul_wait<1>();
    pin(scores);
    change_scores(of_step);
    if constexpr (kMasked) forbid(scores, words);
    bool trusted;
    if constexpr (Traits::kSelects && !kMasked) trusted = weigh_trusting(scores, rows, origins, p.call.scale_log2);
    else trusted = weigh_trusting(scores, rows, p.call.scale_log2);
    pin(scores);
    if (Traits::kLetsGoEarly && trusted) release_scored();
    matmul_wait<0>();
    pin(out);
    release(team.v_empty[held.stage]);
    return trusted;
  }
  template <bool kMasked>
  __device__ __forceinline__ void settle(bool trusted) {
    if (!trusted) weigh_again<kMasked>();
    if (!Traits::kLetsGoEarly || !trusted) release_scored();
    hold();
  }

  // What scores are made of: needed no more once the weights are trusted. Others may come while the values are
  // multiplied.
  __device__ __forceinline__ void release_scored() {
    release(team.k_empty[ring.stage]);
    if (Traits::kQueries == 1 && at_last) release(team.q_empty[0]);
  }

  // By this warp alone: other warps of the warpgroup may have trusted theirs and be a step ahead.
  template <bool kMasked>
  __device__ __forceinline__ void weigh_again() {
    const u32 at = threadIdx.x % 128;
    multiply_scores<Element, kHeadDim, kKeys>(scores, address_of(q) + at / 32 * (16 * kRowBytes),
                                              address_of(keys_at_hand()), at % 32);
    StepBias<Traits> of_step;
    of_step.load(p, bias, team.steps[ring.stage], lane);
    change_scores(of_step);
    if constexpr (kMasked) forbid(scores, words);
    weigh_and_rescale();
  }

  __device__ __forceinline__ void flush() {
    barrier_wait(shared_address(&team.v_full[held.stage]), held.parity);
    issue_held_values();
    matmul_wait<0>();
    pin(out);
    release(team.v_empty[held.stage]);
    holds = false;
  }

  // A step that only other warpgroups need.
  __device__ __forceinline__ void skip(int slot) {
    let_next_part_begin(slot);
    wait_for_values();
    __syncwarp();
    release(team.k_empty[ring.stage]);
    release(team.v_empty[values().stage]);
  }

  // The output of the row block before has left shared memory: its q may be overwritten.
  __device__ __forceinline__ void release_q() {
    if (to_release < 0) return;
    __syncwarp();  // every lane has read the row block's description
    const bool chosen = elected();
    if (chosen) wait_stores_read();
    arrive_for_warp(shared_address(&team.q_empty[to_release]), chosen);
    to_release = -1;
  }

  // Adds the results of the other groups that had steps to the first one's, which finishes the rows.
  __device__ __forceinline__ bool gather(int steps) {
    constexpr int kTeamThreads = 128 * Traits::kGroups;
    meet<kTeamThreads>(team_barrier_id);  // the first group has read what the others left last time
    if (rank > 0 && rank < steps) {
      float4* const to = team.partials[rank - 1] + thread;
      leave_partial(to, to + 128, out, rows);
    }
    meet<kTeamThreads>(team_barrier_id);
    if (rank > 0) return false;
    for (int group = 1; group < min(Traits::kGroups, steps); ++group) {
      const float4* const from = team.partials[group - 1] + thread;
      add_partial(*from, from + 128, out, rows, p.call.scale_log2);
    }
    return true;
  }

  // Where the rows are put for the bulk stores.
  __device__ __forceinline__ u32 way_out(int slot) const {
    if constexpr (Traits::kQueries > 1) return shared_address(team.q[slot][part]);
    else return shared_address(team.out[part]);
  }

  __device__ __forceinline__ void finish(int slot) {
    const RowBlock block = team.blocks[slot];
    const int of = uniform(block.split);
    // Rows whose keys are not known must not look like rows that have none.
    if (of == StreamItem::kDropped) rows.sum[0] = rows.sum[1] = __int_as_float(0x7fffffff);
    else if (of != 0) {
      const SplitRows<kHeadDim> split({p.partials, p.arrivals, p.layout.slots}, block, part, Traits::kParts);
      split.publish(out, rows, thread);
      if constexpr (Traits::kSelects)
        if (p.spans.summed) return;
      named_barrier<128>(barrier_id);
      if (thread == 0) team.last[part] = split.arrive_last();
      named_barrier<128>(barrier_id);
      if (!team.last[part]) return;
      split.merge(out, rows, thread, p.call.scale_log2);
    }
    if constexpr (Traits::kQueries > 1) named_barrier<128>(barrier_id);  // every warp is done with q: out leaves there
    else wait_for_way_out();
    float inverse[2];
    rows.invert(inverse);
    const u32 staging = way_out(slot) + static_cast<u32>(warp) * (16 * kRowBytes);
    if constexpr (Traits::kStacked) {
      write_stacked(block, inverse, staging);
      if (Traits::kQueries > 1 && warp == 3) clear_rows_of_nothing<Traits, 32>(p, team.q[slot][part]);
    } else {
      write_rows_of_head(block, inverse, staging);
    }
  }

  __device__ __forceinline__ void write_rows_of_head(const RowBlock& block, const float (&inverse)[2],
                                                     u32 staging) const {
    const int row = uniform(block.row) + 64 * part + 16 * warp;
    if (row >= 0 && row + 16 <= uniform(block.rows))
      write_rows<Element, kHeadDim, Traits::kOutBoxes>(p.call.out.read_next, maps.out, block, out, inverse, row,
                                                       staging);
    else write_some_rows<Element, kHeadDim>(p.call, block, out, inverse, row);
    write_lse(p.call, block, rows, row);
  }

  // Positions of a power of two: a warp's rows are of one head, or of two, and the box of the map is as high as there
  // are positions of one. Of others no box has them.
  __device__ __forceinline__ void write_stacked(const RowBlock& block, const float (&inverse)[2], u32 staging) const {
    const int positions = p.positions, height = min(16, positions);
    const RowOfPart from = row_of_part<Traits>(p, block, part, 16 * warp);
    if ((positions & (positions - 1)) == 0 && from.row >= 0 && from.row + height <= uniform(block.rows)) {
      RowBlock first = block;
      first.head = uniform(from.head);
      write_rows<Element, kHeadDim, Traits::kOutBoxes>(p.call.out.read_next, maps.out, first, out, inverse,
                                                       uniform(from.row), staging);
    } else {
      write_rows_apart<Element, kHeadDim, Traits::kOutBoxes>(p.call.out.head_dim, out, inverse, staging, [&](int i) {
        const RowOfPart at = row_of_part<Traits>(p, block, part, 16 * warp + i);
        return is_written<Traits>(p, block, at) ? values_of(p.call.out, block, at.head, at.row) : nullptr;
      });
    }
    if (p.call.out.lse == nullptr || lane % 4 != 0) return;  // after the rows: see write_lse
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const RowOfPart at = row_of_part<Traits>(p, block, part, 16 * warp + lane / 4 + 8 * i);
      if (is_written<Traits>(p, block, at))
        *lse_of(p.call.out, block, at.head, at.row) = log_sum_exp(rows, i, p.call.scale_log2);
    }
  }
};

}  // namespace stof::cuda
