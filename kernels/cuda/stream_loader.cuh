// SPDX-License-Identifier: Apache-2.0
// The loading warp of a team: takes row blocks from the queue, and brings q, keys, values and mask words, running ahead
// of the consumers by as many steps as the ring has, across row blocks.
#pragma once
#include "kernels/cuda/span_steps.cuh"

namespace stof::cuda {

template <class Traits>
struct StreamLoader : SpanSteps<Traits> {
  using Base = StreamSteps<Traits>;
  using Base::p, Base::by_spans, Base::exists, Base::first_key, Base::has_rows, Base::listed, Base::look, Base::read,
      Base::skip_step, Base::steps_of, Base::teams;
  using typename Base::PagedKeys, typename Base::RowBlockSteps, typename Base::Step, typename Base::Steps;
  using SpanStep = typename SpanSteps<Traits>::Step;
  using Spans = typename SpanSteps<Traits>::Spans;
  using Team = typename Traits::Team;
  Team& team;
  const AttentionMaps& maps;
  RingPlace<Traits::kKeyStages> ring;
  RingPlace<Traits::kStages> apart;  // where the step's values are, if keys have a ring of their own

  // Where the SM was taken until now, everything waits for the first copies: this warp looks for its first row block
  // before it meets the others, unless the grid in front makes what says where that is.
  __device__ __forceinline__ void run(int first) {
    if constexpr (Traits::kSelects)
      if (p.leads) wait_for_previous_grid(), allow_next_grid();
    int total = p.call.shape.slices * p.layout.item_count, turn = 0;
    int behind = teams() - 1 - first;  // teams that the round has still to come to
    bool met = false;
    if (listed() || p.call.shape.numbers_made || p.layout.group_of) {
      begin_together<Traits>(), met = true;
      wait_for_previous_grid();
      if constexpr (Traits::kSelects)
        if (listed()) total = __ldcg(p.list) * p.call.shape.heads;
    }
    // Without a queue every other round goes backwards: after two rounds who began with the dearest has the cheapest.
    const auto after = [&](int index) {
      if (p.queue) {
        wait_for_previous_grid();  // it may still use the queue
        return teams() + count_on(p.queue);
      }
      index += 2 * behind + 1;
      behind = teams() - 1 - behind;
      return index;
    };
    for (int index = first; index < total; index = after(index)) {
      const RowBlockSteps found = look(index);
      if (!met) begin_together<Traits>(), met = true;
      if (load_row_block(found, turn)) ++turn;
    }
    if (!met) begin_together<Traits>();
    wait_for_previous_grid();
    wait_for_query(turn);
    if (elected()) {
      team.blocks[turn & 1].steps = -1;
      barrier_arrive(shared_address(&team.q_full[query_of(turn)]));
    }
    if (p.queue && count_on(p.queue + 1) == teams() - 1 && elected()) p.queue[0] = p.queue[1] = 0;
  }

  // The values of the row blocks that run() announces, by a warp of their own: where one or two teams have the SM, one
  // warp cannot issue as fast as a team consumes.
  __device__ __forceinline__ void run_values() {
    for (int turn = 0;; ++turn) {
      barrier_wait(shared_address(&team.q_full[query_of(turn)]), round_of(turn));
      const RowBlock block = team.blocks[turn & 1];
      if (block.steps < 0) break;
      int of_spans = 0;
      if constexpr (Traits::kSelects)
        if (by_spans()) of_spans = Spans::mine_of(Traits::tiles_of(team, turn));
      __syncwarp();  // every lane has read the description, which the row block after the next one's will replace
      arrive_for_warp(shared_address(&team.q_empty[query_of(turn)]), elected());
      if (by_spans()) {
        const Place first = first_key(block);
        for_each_span_step<false>(block, of_spans, first, this->template boxes_from<false>(block, of_spans, first, 0),
                                  [&](const SpanStep& step) { load_values(step, first); });
        continue;
      }
      for_each_step(block, steps_of(block, 0),
                    [&](const Step& step, const Place& first, bool) { load_values(step, first, block.keys); });
    }
  }

 private:
  __device__ __forceinline__ const RingPlace<Traits::kStages>& values() const {
    if constexpr (Traits::kApart) return apart;
    else return ring;
  }
  // Where a turn's q lies, and the parity of how often others lay there before.
  static __device__ __forceinline__ int query_of(int turn) { return turn & (Traits::kQueries - 1); }
  static __device__ __forceinline__ u32 round_of(int turn) { return turn >> (Traits::kQueries - 1) & 1; }
  __device__ __forceinline__ void wait_for_query(int turn) {
    barrier_wait(shared_address(&team.q_empty[query_of(turn)]), round_of(turn) ^ 1);
  }

  static __device__ __forceinline__ int count_on(int* counter) {
    int before = 0;
    if (threadIdx.x % 32 == 0) before = atomicAdd(counter, 1);
    return uniform(before);
  }

  // q, keys and, where no other lane does it, values. False: the row block has no row of the item.
  __device__ __forceinline__ bool load_row_block(const RowBlockSteps& found, int turn) {
    const RowBlock& block = found.block;
    if (!has_rows(block)) return false;
    // The only q is there until the last scores of the row block before are: the first keys need not wait for that.
    bool announced = false;
    const auto announce_once = [&] {
      if (!announced) announce(found, turn), announced = true;
    };
    const bool at_once = Traits::kQueries > 1 || block.steps == 0;
    if ((Traits::kPaged && by_spans()) || !at_once) wait_for_previous_grid();
    if (by_spans()) {
      const Place first = first_key(block);
      // In front of q: the page table is read beside it.
      const auto boxes = this->template boxes_from<true>(block, found.of_spans, first, 0);
      if (at_once) announce_once();
      for_each_span_step<true>(block, found.of_spans, first, boxes, [&](const SpanStep& step) {
        load_keys(step, first);
        if constexpr (!Traits::kValueLoaders) load_values(step, first);
        announce_once();
      });
      return true;
    }
    if (at_once) announce_once();
    for_each_step(block, found.steps, [&](const Step& step, const Place& first, bool late) {
      load_keys(step, first, block.keys, late ? TileMark::kLate : 0);
      if constexpr (!Traits::kValueLoaders) load_values(step, first, block.keys);
      announce_once();
    });
    return true;
  }

  // Of q, as the box of its map has them.
  __device__ __forceinline__ u32 bytes_of_part() const {
    if constexpr (Traits::kStacked) return Traits::kBoxes * kRowBytes * static_cast<u32>(p.positions * p.stacked_heads);
    else return Traits::kPartBytes;
  }

  __device__ __forceinline__ void announce(const RowBlockSteps& found, int turn) {
    const RowBlock& block = found.block;
    const int slot = query_of(turn);
    const u32 full = shared_address(&team.q_full[slot]);
    wait_for_query(turn);
    if constexpr (Traits::kSelects && Traits::kValueLoaders)
      if (by_spans()) {
        const SpanTiles tiles = Spans::tiles_of(found.of_spans);
        if (elected()) Traits::tiles_of(team, turn) = tiles;
      }
    if (elected()) {
      team.blocks[turn & 1] = block;
      if constexpr (Traits::kInOrder) team.numbers[turn & 1] = turn + 1;
      barrier_expect(full, Traits::kParts * bytes_of_part());
    }
    wait_for_previous_grid();  // its results may be q, k and v
    if (!elected()) return;
#pragma unroll
    for (int part = 0; part < Traits::kParts; ++part)
#pragma unroll
      for (int box = 0; box < Traits::kBoxes; ++box)
        load_box(shared_address(team.q[slot][part]) + box * (64 * kRowBytes), maps.q,
                 {box * kBoxColumns, block.place.query_start + block.row + positions_of_part<Traits>(p) * part,
                  block.residue, block.head, block.place.item},
                 full);
  }

  // load(step, place of key 0, whether it is late) for every step that the row block has; the next one is read beside
  // it.
  template <class Load>
  __device__ __forceinline__ void for_each_step(const RowBlock& block, Steps steps, const Load& load) {
    const bool shorter = block.keys < p.call.shape.keys;
    if constexpr (Traits::kPaged)
      if (block.steps > 0) look_up(steps.next, steps.first_key, block.keys);
    for (int n = 1; n <= block.steps; ++n) {
      const Step step = steps.next;
      const bool late = (steps.late & 1) != 0;
      if (n < block.steps) {
        do skip_step(steps);
        while (shorter && !exists(steps.at, block.keys));
        steps.next = read(steps.at);
        if constexpr (Traits::kPaged) look_up(steps.next, steps.first_key, block.keys);
      }
      load(step, steps.first_key, late);
      advance();
    }
  }
  template <bool kStates, class Load>
  __device__ __forceinline__ void for_each_span_step(const RowBlock& block, int of_spans, const Place& first,
                                                     const typename SpanSteps<Traits>::Box& boxes, const Load& load) {
    SpanSteps<Traits>::template for_each_span_step<kStates>(block, of_spans, first, boxes, [&](const SpanStep& step) {
      load(step);
      advance();
    });
  }
  __device__ __forceinline__ void advance() {
    ring.advance();
    if constexpr (Traits::kApart) apart.advance();
  }

  // late: the mark of all tiles of the step, or 0.
  __device__ __forceinline__ void load_keys(const Step& step, const Place& first_key, int keys, int late) {
    const u32 stage = ring.stage, full = shared_address(&team.k_full[stage]);
    barrier_wait(shared_address(&team.k_empty[stage]), ring.parity ^ 1);
    if constexpr (Traits::kApart) wait_for_words(step);
    if constexpr (Traits::kPaged) {
      if (elected()) {
        expect_keys(step, late, TileMark::kOthersBehind, keys);
#pragma unroll
        for (int tile = 0; tile < Traits::kTiles; ++tile) load_words(step, tile, full);
      }
      load_pages(shared_address(team.k[stage]), maps.k, step.paged, first_key.head, full);
    } else {
      if (!elected()) return;
      const bool others_behind = first_key.row + keys < p.call.shape.map_keys;
      expect_keys(step, late, others_behind ? TileMark::kOthersBehind : 0, keys);
#pragma unroll
      for (int tile = 0; tile < Traits::kTiles; ++tile) {
        load_tile(shared_address(team.k[stage]), maps.k, place(first_key, step.entries[tile][0], keys), tile, full);
        load_words(step, tile, full);
      }
    }
  }

  __device__ __forceinline__ void load_keys(const SpanStep& step, const Place& first) {
    const u32 stage = ring.stage, full = shared_address(&team.k_full[stage]);
    const auto pages = this->pages_of(step);
    int states[Traits::kTiles];
#pragma unroll
    for (int tile = 0; tile < Traits::kTiles; ++tile) states[tile] = step.listed ? this->states_of(step, tile) : 0;
    barrier_wait(shared_address(&team.k_empty[stage]), ring.parity ^ 1);
    if (!elected()) return;
#pragma unroll
    for (int tile = 0; tile < Traits::kTiles; ++tile) put_span_tile(step, tile, states[tile], first);
    barrier_expect(full, Traits::kTileBytes);
    this->copy(step, pages, first, shared_address(team.k[stage]), maps.k, full);
  }
  // Parts that have not begun read the states of full tiles too. By one lane.
  __device__ __forceinline__ void put_span_tile(const SpanStep& step, int tile, int states, const Place& first) {
    if (step.listed) {
      const bool others_behind = Traits::kPaged || first.row + step.end < p.call.shape.map_keys;
      put_tile(tile, step.keys[tile], step.end, Spans::is_late(states) ? TileMark::kLate : 0,
               others_behind ? TileMark::kOthersBehind : 0,
               [&](int part) { return Spans::state_of_part(states, part); });
    } else {
#pragma unroll
      for (int part = 0; part < Traits::kParts; ++part) team.steps[ring.stage][tile][1 + part] = TileState::kFull;
    }
  }
  __device__ __forceinline__ void load_values(const SpanStep& step, const Place& first) {
    const u32 stage = values().stage, full = shared_address(&team.v_full[stage]);
    const auto pages = this->pages_of(step);
    barrier_wait(shared_address(&team.v_empty[stage]), values().parity ^ 1);
    if (!elected()) return;
    barrier_expect(full, Traits::kTileBytes);
    this->copy(step, pages, first, shared_address(team.v[stage]), maps.v, full);
  }

  // Says how many bytes come, and what consumers read of a step's tiles. By one lane.
  __device__ __forceinline__ void expect_keys(const Step& step, int late, int others, int keys) {
    u32 word_bytes = 0;
#pragma unroll
    for (int tile = 0; tile < Traits::kTiles; ++tile) {
      const int* const entry = step.entries[tile];
      put_tile(tile, entry[0], keys, late, others, [&](int part) { return entry[1 + part]; });
#pragma unroll
      for (int i = 1; i <= Traits::kParts; ++i) word_bytes += entry[i] >= 0 ? 512 : 0;
    }
    barrier_expect(shared_address(&team.k_full[ring.stage]), Traits::kTileBytes + word_bytes);
  }
  template <class StateOfPart>
  __device__ __forceinline__ void put_tile(int tile, int key, int keys, int late, int others,
                                           const StateOfPart& state_of_part) {
    int(&to)[1 + Traits::kParts] = team.steps[ring.stage][tile];
    to[0] = key | late | others;
#pragma unroll
    for (int part = 0; part < Traits::kParts; ++part) {
      const int state = state_of_part(part);
      const bool multiplied = Traits::kTiles > 1 || state != TileState::kUnused;  // with the step's other tile
      const bool marked = multiplied && (late != 0 || key + 64 > keys);
      to[1 + part] = state + (marked ? kMarkedState : 0);
    }
  }
  __device__ __forceinline__ void load_words(const Step& step, int tile, u32 barrier) {
    const int* entry = step.entries[tile];
#pragma unroll
    for (int i = 1; i <= Traits::kParts; ++i)
      if (entry[i] >= 0)
        load_bytes(shared_address(team.words[values().stage][i - 1][tile]), p.layout.words + entry[i] * 128, 512,
                   barrier);
  }

  // Keys run ahead of the places for words by one step: the words of kStages steps before must have been read.
  __device__ __forceinline__ void wait_for_words(const Step& step) {
    bool any = false;
#pragma unroll
    for (int tile = 0; tile < Traits::kTiles; ++tile)
#pragma unroll
      for (int i = 1; i <= Traits::kParts; ++i) any |= step.entries[tile][i] >= 0;
    const bool wraps = ring.stage + 1 == Traits::kKeyStages;
    if (any)
      barrier_wait(shared_address(&team.k_empty[wraps ? 0 : ring.stage + 1]), wraps ? ring.parity : ring.parity ^ 1);
  }

  __device__ __forceinline__ void load_values(const Step& step, const Place& first_key, int keys) {
    const u32 stage = values().stage, full = shared_address(&team.v_full[stage]);
    barrier_wait(shared_address(&team.v_empty[stage]), values().parity ^ 1);
    if constexpr (Traits::kPaged) {
      if (elected()) barrier_expect(full, Traits::kTileBytes);
      load_pages(shared_address(team.v[stage]), maps.v, step.paged, first_key.head, full);
    } else {
      if (!elected()) return;
      barrier_expect(full, Traits::kTileBytes);
#pragma unroll
      for (int tile = 0; tile < Traits::kTiles; ++tile)
        load_tile(shared_address(team.v[stage]), maps.v, place(first_key, step.entries[tile][0], keys), tile, full);
    }
  }

  // A tile behind the item's last key, beside one that is not, is all zeros: so are rows that the tensor does not have.
  static __device__ __forceinline__ Place place(Place at, int key, int keys) {
    at.row = Traits::kTiles > 1 && key >= keys ? 1 << 30 : at.row + key;
    return at;
  }

  // By all lanes, a step before it is copied: that hides what the page table takes. Keys behind the item's last one are
  // zeros, and their pages are not looked up.
  __device__ __forceinline__ void look_up(Step& step, const Place& item, int keys) const {
    const int row = static_cast<int>(threadIdx.x) % 32 << p.pages.copied_log2;
    int first = step.entries[0][0];
    if (Traits::kTiles > 1 && row >= 64) first = step.entries[Traits::kTiles - 1][0];
    const int key = first + row % 64;
    step.paged = {0, 1 << 30};
    if (row >= Traits::kKeys || key >= keys) return;
    step.paged.row = key & ((1 << p.pages.shift) - 1);
    step.paged.page = __ldg(p.pages.table + item.item * p.pages.item_stride + (key >> p.pages.shift));
  }
  // By one lane, behind its expecting the bytes: of lanes that copy what they looked up the assembler makes a loop that
  // takes longer than a step's products.
  __device__ __forceinline__ void load_pages(u32 target, const TensorMap& map, PagedKeys mine, int head,
                                             u32 barrier) const {
    static_assert(Traits::kTiles <= 2);
    const int copied = 1 << p.pages.copied_log2;
    for (int row = 0, lane = 0; row < Traits::kKeys; row += copied, ++lane) {
      Place at{0, __shfl_sync(~0u, mine.row, lane), 0, head, __shfl_sync(~0u, mine.page, lane)};
      if (!elected()) continue;
#pragma unroll
      for (int box = 0; box < Traits::kBoxes; ++box) {
        at.column = box * kBoxColumns;
        load_box(target + (box * Traits::kKeys + row) * kRowBytes, map, at, barrier);
      }
    }
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
