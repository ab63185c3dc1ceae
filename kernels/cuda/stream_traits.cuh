// SPDX-License-Identifier: Apache-2.0
// Sizes of the stream kernel: how a CTA is divided into teams, how its shared memory and registers are dealt out.
#pragma once
#include "kernels/cuda/arrivals.cuh"
#include "kernels/cuda/output.cuh"
#include "kernels/cuda/ring.cuh"
#include "kernels/cuda/row_spans.cuh"
#include "kernels/shared/row_block_list.h"

namespace stof::cuda {

// A CTA holds `teams`, each with its own stream of row blocks of 64 * parts rows, one warpgroup a part. A step brings
// 64 * tiles keys; `stages` steps are in flight. ctas: what fits an SM. groups: warpgroups that take a part's steps in
// turns and add up at its end, where a row block must be done soon rather than many at a time. queries: row blocks
// whose q is held. With 2, a row block's q comes beside the steps of the one before, and out leaves where q was. With
// 1, which leaves room for stages, it comes as soon as the last scores of the one before are there, and out leaves
// through memory of its own, in turns. capped: for calls with a softcap, and for no others. more_keys: 1 where keys
// have a stage more than values, which are wanted a step later. stacked: a part's rows are those of several query heads
// of one key head, for fewer positions than rows. listed: row blocks come by a list, or are looked for
// near an item's rows. paged: keys and values lie in pages, and row blocks come in any of these ways. biased: for calls
// with a relative bias, and for no others.
struct StreamShape {
  int teams, parts, tiles, stages, ctas, groups = 1, queries = 2;
  bool capped = false;
  int more_keys = 0;
  bool stacked = false;
  bool listed = false;
  bool paged = false;
  bool biased = false;
};

__host__ __device__ constexpr StreamShape listed(StreamShape shape) {
  shape.listed = true;
  return shape;
}
__host__ __device__ constexpr StreamShape paged(StreamShape shape) {
  shape.paged = true;
  return shape;
}

template <bool kListed, bool kPaged, bool kBiased>
struct ParamsOfStream {
  using Type = StreamParams;
};
template <>
struct ParamsOfStream<true, false, false> {
  using Type = ListedStreamParams;
};
template <>
struct ParamsOfStream<false, true, false> {
  using Type = PagedStreamParams;
};
template <>
struct ParamsOfStream<false, false, true> {
  using Type = BiasedStreamParams;
};

template <class Element_, int kHeadDim_, StreamShape kShape>
struct StreamTraits {
  using Element = Element_;
  using Params = typename ParamsOfStream<kShape.listed, kShape.paged, kShape.biased>::Type;
  static constexpr int kHeadDim = kHeadDim_, kBoxes = (kHeadDim + kBoxColumns - 1) / kBoxColumns;
  static constexpr int kTeams = kShape.teams, kParts = kShape.parts, kTiles = kShape.tiles, kStages = kShape.stages;
  static constexpr int kCtas = kShape.ctas, kGroups = kShape.groups, kQueries = kShape.queries;
  static constexpr bool kCapped = kShape.capped, kBiased = kShape.biased, kStacked = kShape.stacked,
                        kPaged = kShape.paged, kSelects = kShape.listed || kPaged;
  static constexpr int kKeyStages = kStages + kShape.more_keys;
  // Keys of steps this wide come late when they are asked for late; of others, letting go of them early costs more.
  static constexpr bool kLetsGoEarly = kHeadDim * kTiles >= 192;
  static constexpr bool kApart = kKeyStages != kStages;  // keys have a ring of their own
  static constexpr int kKeys = 64 * kTiles, kRows = 64 * kParts;
  static constexpr int kTeamSize = kParts * kGroups;
  static constexpr int kConsumers = kTeams * kTeamSize;  // warpgroups; one more loads
  static constexpr bool kValueLoaders = kTeams <= 2;     // values have loading warps of their own
  static constexpr int kThreads = 128 * (kConsumers + 1);
  static constexpr int kStepInts = kTiles * (1 + kParts);
  // Two parts that begin a row block together stay together: both multiply, then both make weights. So the second one's
  // first scores wait for the first one's. No data goes that way: for racecheck, which would miss a barrier, nobody
  // waits.
  static constexpr bool kInOrder = kParts == 2 && !kForRacecheck;

  static constexpr u32 kPartBytes = kBoxes * 64 * kRowBytes;            // 64 rows of q, or of out
  static constexpr u32 kTileBytes = kBoxes * 64 * kTiles * kRowBytes;   // the keys or the values of a step
  static constexpr int kOutBoxes = kQueries > 1 ? kBoxes : kBoxes / 2;  // that leave at once

  // setmaxnreg deals in steps of 8 what the launch gave: 56 to the loading warpgroup where there are plenty, or where
  // it looks for row blocks and each consumer has 152 left, else 32; the rest to the consumers. 240 is the most it
  // takes.
  static constexpr int kShare = 65536 / (kThreads * kCtas) / 8 * 8;
  static constexpr int kLaunchRegisters = kShare > 240 ? 240 : kShare;
  static constexpr int kPool = kLaunchRegisters * (kConsumers + 1);
  static constexpr bool kPlenty = kPool > 200 * kConsumers || (kSelects && kPool - 56 >= 152 * kConsumers);
  static constexpr int kMostRegisters = (kPool - (kPlenty ? 56 : 32)) / kConsumers / 8 * 8;
  static constexpr int kConsumerRegisters = kMostRegisters > 240 ? 240 : kMostRegisters;
  static constexpr int kSpareRegisters = kPool - kConsumerRegisters * kConsumers;
  static constexpr int kLoaderRegisters = kSpareRegisters > kLaunchRegisters ? kLaunchRegisters : kSpareRegisters;
  static_assert(kTeams <= 4, "each team has one of the four loading warps");
  static_assert(kQueries == 2 || (kQueries == 1 && kValueLoaders && kOutBoxes > 0));
  static_assert(!kApart || (kKeyStages == kStages + 1 && kGroups == 1));
  static_assert(kGroups == 1 || (kParts == 1 && kStages >= 2 * kGroups && kStages % kGroups == 0),
                "every group has a step at hand and one held, and comes to the same stages again");

  struct Team {
    alignas(1024) unsigned char q[kQueries][kParts][kPartBytes];  // of two, out leaves through it too
    unsigned char k[kKeyStages][kTileBytes];
    unsigned char v[kStages][kTileBytes];
    u32 words[kStages][kParts][kTiles][128];  // in the places of the values
    int steps[kKeyStages][kTiles][1 + kParts];
    RowBlock blocks[2];
    u64 q_full[kQueries], q_empty[kQueries];
    u64 k_full[kKeyStages], k_empty[kKeyStages], v_full[kStages], v_empty[kStages];
    float4 partials[kGroups - 1 + (kGroups == 1)][kGroups == 1 ? 1 : (kHeadDim / 8 + 1) * 128];
    int numbers[2];       // of the row blocks, in the order in which the team takes them, from 1
    volatile int scored;  // the last one of which the first part has had scores, or needs none yet
    int last[kParts];     // whether this part completed a split row
    alignas(kQueries > 1 ? 1 : 1024) unsigned char out[kParts][kQueries > 1 ? 1 : kOutBoxes * 64 * kRowBytes];
  };
  // Of row blocks that go by the spans of their rows: those of two, where others have words.
  static __device__ __forceinline__ SpanTiles& tiles_of(Team& team, int turn) {
    static_assert(2 * sizeof(SpanTiles) <= sizeof(team.words));
    return reinterpret_cast<SpanTiles*>(team.words)[turn & 1];
  }
  struct Shared {
    Team teams[kTeams];
  };
  static_assert(sizeof(Shared) * kCtas <= 227 * 1024, "shared memory of an SM");
};

// All warps, once barriers are made.
template <class Traits>
__device__ __forceinline__ void begin_together() {
  named_barrier_anywhere<0, Traits::kThreads>();
}

// Positions that a part has rows of.
template <class Traits>
__device__ __forceinline__ int positions_of_part(const StreamParams& p) {
  if constexpr (Traits::kStacked) return p.positions;
  else return 64;
}

// What a row of a part stands for: a row of the item, of one of the row block's heads.
struct RowOfPart {
  int head, row;
};
// Rows that stand for nothing are rows of heads behind the stack's.
template <class Traits>
__device__ __forceinline__ RowOfPart row_of_part(const StreamParams& p, const RowBlock& block, int part, int at) {
  if constexpr (!Traits::kStacked) return {block.head, block.row + 64 * part + at};
  const int of_stack = at / p.positions;
  return {block.head + of_stack, block.row + p.positions * (part - of_stack) + at};
}
template <class Traits>
__device__ __forceinline__ bool is_written(const StreamParams& p, const RowBlock& block, const RowOfPart& at) {
  if (Traits::kStacked && at.head - block.head >= p.stacked_heads) return false;
  return at.row >= 0 && at.row < block.rows;
}

// Rows that stand for nothing are zeros for all row blocks: what was there before could be anything, and what its
// scores make a warp do again would not be the same in every launch. By so many threads; q: of a part.
template <class Traits, int kThreads>
__device__ __forceinline__ void clear_rows_of_nothing(const StreamParams& p, unsigned char* q) {
  for (int at = p.positions * p.stacked_heads * kRowBytes + static_cast<int>(threadIdx.x) % kThreads * 16;
       at < 64 * kRowBytes; at += 16 * kThreads)
#pragma unroll
    for (int box = 0; box < Traits::kBoxes; ++box)
      *reinterpret_cast<uint4*>(q + box * (64 * kRowBytes) + at) = make_uint4(0, 0, 0, 0);
  fence_async_proxy();
}

// Added by the loader to the states of a tile that reaches past the slice's keys, or that is kLate: who meets it reads
// what the word of the first key has in front of the key.
constexpr int kMarkedState = 1 << 28;
struct TileMark {
  static constexpr int kOthersBehind = 1 << 29;  // what a copy brings from behind the last key need not be zeros
  static constexpr int kLate = 1 << 30;          // some row may have its first key in this tile
  static constexpr int kKey = kOthersBehind - 1;
};

}  // namespace stof::cuda
