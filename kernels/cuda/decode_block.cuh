// SPDX-License-Identifier: Apache-2.0
// What a CTA of the decode kernels does with tiles of a task: scores, weights, values.
#pragma once
#include "kernels/cuda/decode_loader.cuh"
#include "kernels/cuda/decode_matmul.cuh"
#include "kernels/cuda/decode_merge.cuh"

namespace stof::cuda {

// Where warpgroups have their queries.
template <u32 kBytes>
struct QueryTiles {
  alignas(1024) unsigned char queries[kBytes];
};
template <>
struct QueryTiles<0> {};

// Of the rows that threads of a second group have as those of the first: maxima and sums, see leave_partial.
template <int kGroups>
struct GroupStats {
  float4 group_stats[128];
};
template <>
struct GroupStats<1> {};

// Where two warps have the halves of the columns: what each finds of a score, twice, since the next ones may be written
// while these are read.
template <int kColumnWarps>
struct ScoreHalves {
  float4 score_halves[2][kColumnWarps][4][2][32];
};
template <>
struct ScoreHalves<1> {};

struct DecodeShape {
  int ctas;            // what fits an SM
  int row_warps;       // of the four warps that read, 16 rows each; the others take other keys of the same rows
  int warpgroups = 0;  // where there are, each has the rows of four warps, and they take the tiles in turns
  bool trees = true;   // reads draft trees
};

template <class Element_, int kHeadDim_, DecodeShape kShape>
struct DecodeTraits {
  using Element = Element_;
  static constexpr int kHeadDim = kHeadDim_, kRowWarps = kShape.row_warps, kWarpgroups = kShape.warpgroups;
  static_assert(kWarpgroups == 0 || kRowWarps == 4, "rows of a warpgroup");
  // Code for them costs 1 to 2 % where warpgroups have all registers; in other forms nothing.
  static constexpr bool kTrees = kShape.trees;
  static constexpr int kGroups = kWarpgroups > 0 ? kWarpgroups : 1;  // of readers, which have tiles of their own
  // Of wide heads each of the four warps is two, which have the same rows and keys, and half of the columns.
  static constexpr int kColumnWarps = kWarpgroups == 0 && kHeadDim > 128 ? 2 : 1, kColumns = kHeadDim / kColumnWarps;
  static constexpr int kTileReaders = 4 * kColumnWarps, kReaders = kTileReaders * kGroups;
  static constexpr int kKeyWarps = 4 * kGroups / kRowWarps, kRows = 16 * kRowWarps;
  static constexpr int kReaderThreads = 32 * kReaders, kLoaderThreads = 128, kThreads = kReaderThreads + kLoaderThreads;
  // Two warpgroups have no registers to read items as constants.
  static constexpr bool kConstantItems = kGroups == 1;
  // Whether a warp of a group has all keys of the group's tiles, for rows of its own.
  static constexpr bool kOwnRows = kRowWarps == 4;
  static constexpr int kTileKeys = DecodeList::kTileKeys, kWarpKeys = kTileKeys * kGroups / kKeyWarps;
  static constexpr u32 kHalfBytes = kTileKeys * kHeadDim * 2;  // the keys of a tile, or its values
  static constexpr u32 kQueryBytes = kWarpgroups > 0 ? kRows* kHeadDim * 2 : 0;
  // Whether most steps look for no maxima, and scores of a tile are made beside the values of the one before. At d 256
  // the former gained nothing, and the latter needs two stages of a group where there are three; of 32 rows of warps
  // the former lost.
  static constexpr bool kTrusts = kWarpgroups > 0 && kHeadDim <= 128;
  static_assert(!kTrusts || kGroups > 1);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  static constexpr int kCtas = 1;
  static constexpr bool kDealsRegisters = false;
  static constexpr u32 kRingBytes = kHeadDim == 256 ? 128 * 1024 : 96 * 1024;
#else
  static constexpr int kCtas = kShape.ctas;
  static constexpr bool kDealsRegisters = kCtas == 2 || kWarpgroups > 0 || kColumnWarps > 1;
  static constexpr u32 kRingBytes = 192 * 1024 / kCtas;
#endif
  // Registers are dealt as if there were more threads: what these would have is for CTAs of decode_sum_kernel, which
  // begin beside this one. Threads that load need few of theirs; setmaxnreg deals in steps of 8, up to 240.
  static constexpr int kBoundThreads = kDealsRegisters && kCtas == 1 ? kThreads + 128 : kThreads;
  static constexpr int kLoaderRegisters = kHeadDim == 256 ? 96 : 48;
  static constexpr int kLeft = 65536 / kCtas / kBoundThreads / 8 * 8 * kThreads - kLoaderRegisters * kLoaderThreads;
  static constexpr int kReaderRegisters = kLeft / kReaderThreads < 240 ? kLeft / kReaderThreads / 8 * 8 : 240;
  static constexpr int kStages = kRingBytes / (2 * kHalfBytes);

  struct Shared : QueryTiles<kQueryBytes>, GroupStats<kGroups>, ScoreHalves<kColumnWarps> {
    alignas(1024) unsigned char stages[kStages][2 * kHalfBytes];
    alignas(16) unsigned long long words[kStages][DecodeList::kRows];
    u64 tree_words[kReaders][DecodeList::kPositions];  // in calls with trees: of each query, by the warp's tile
    DecodeRing<kStages, kTileReaders> ring;
    float2 stats[kReaders][16];  // of the warps' shares
    int sums[4], found[2];
    int last;  // whether this CTA left the last part of a task
  };
  static_assert(sizeof(Shared) <= 227 * 1024, "shared memory of a CTA");
  static_assert(sizeof(float) * 4 * WarpPart<kHeadDim>::kFloats == 2 * kHalfBytes, "parts of a group lie in a stage");
  static_assert(sizeof(int) * DecodeParams::kMostTasks <= kStages * 2 * kHalfBytes, "tasks are counted in the ring");
};

template <class Traits>
struct DecodeBlock {
  using Element = typename Traits::Element;
  using Place = RingPlace<Traits::kStages>;
  static constexpr int kColumns = Traits::kColumns, kWarpKeys = Traits::kWarpKeys, kGroups = Traits::kGroups;

  typename Traits::Shared& shared;
  const DecodeParams& p;
  int thread, lane, group, row_warp, key_warp;
  int first_column;    // of those that this warp has of the results
  Place at;            // of the first tile of the task to come
  u32 lasts[kGroups];  // stages of the groups' last tiles
  int groups;          // that had tiles
  DecodeMatmuls<Traits> matmuls;
  int bit_rows[2];  // of this thread's rows, in words_of
  float out[kColumns / 2];
  RowStats rows;

  // By all that read.
  __device__ __forceinline__ DecodeBlock(typename Traits::Shared& memory, const DecodeParams& params)
      : shared(memory), p(params), thread(static_cast<int>(threadIdx.x)), matmuls(memory, thread) {
    const int warp = thread / 32;
    lane = thread % 32;
    group = Traits::kColumnWarps > 1 ? 0 : warp / 4;
    row_warp = Traits::kWarpgroups > 0 ? warp % 4 : (Traits::kColumnWarps > 1 ? warp % 4 : warp) / Traits::kKeyWarps;
    key_warp = Traits::kWarpgroups > 0 ? group : warp % Traits::kKeyWarps;
    first_column = Traits::kColumnWarps > 1 ? warp / 4 * kColumns : 0;
  }

  __device__ __forceinline__ void begin(const DecodeTask& task) {
    matmuls.load_queries(p, task);
    rows.reset();
    const RowItem item = item_of<Traits::kConstantItems>(p, task);
    const int first_bits = has_tree_words() ? 0 : task.position;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = row_of(i);
      bit_rows[i] = first_bits + task.place_of(r < task.rows ? r : 0, item).query;
    }
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) out[i] = 0.f;
    matmuls.wait_for_queries();
  }
  // Of the task, this thread's i-th.
  __device__ __forceinline__ int row_of(int i) const { return 16 * row_warp + lane / 4 + 8 * i; }

  __device__ __forceinline__ void forbid_keys(float (&scores)[kWarpKeys / 2], u32 stage, int keys) const {
    const LoadedTile tile = shared.ring.tiles[stage];
    const int left = keys - tile.key_start;
    if (tile.bitmap < 0 && left >= Traits::kTileKeys) return;
    const u64 existing = left >= 64 ? ~0ull : (1ull << left) - 1;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      u64 word = tile.bitmap < 0 ? existing : existing & words_of(stage)[bit_rows[i]];
      word >>= (Traits::kWarpgroups > 0 ? 0 : key_warp * kWarpKeys) + lane % 4 * 2;
#pragma unroll
      for (int j = 0; j < kWarpKeys / 8; ++j)
#pragma unroll
        for (int column = 0; column < 2; ++column)
          if (!(word >> (8 * j + column) & 1)) scores[4 * j + 2 * i + column] = kMinusInfinity;
    }
  }

  // Whether words are those of the item's queries, which find_words makes, and not those of the list's rows.
  __device__ __forceinline__ bool has_tree_words() const { return Traits::kTrees && p.trees.queries > 0; }
  __device__ __forceinline__ const u64* words_of(u32 stage) const {
    return has_tree_words() ? shared.tree_words[threadIdx.x / 32] : shared.words[stage];
  }
  // In front of a tile's scores, when registers are free. By a warp, a query a lane. Tiles that a tree may cut have
  // words: arrange_decode.
  __device__ __forceinline__ void find_words(const DecodeTask& task, u32 stage) const {
    if (!has_tree_words()) return;
    const LoadedTile tile = shared.ring.tiles[stage];
    if (tile.bitmap < 0) return;
    const RowItem item = item_of<Traits::kConstantItems>(p, task);
    const bool is_query = lane < item.queries;  // of which there are no more than DecodeList::kPositions
    u64 word = 0;
    if (is_query) word = shared.words[stage][task.position + lane];
    if (is_query && has_tree(p.trees, item.queries))
      word &= wide_tree_bits(p.trees, item.place, lane, tile.key_start - (task.keys - item.queries));
    __syncwarp();
    if (is_query) shared.tree_words[threadIdx.x / 32][lane] = word;
    __syncwarp();
  }

  // Whose keys are there.
  __device__ __forceinline__ void add_tile(const Place& mine, int keys) {
    const u32 tile = shared_address(shared.stages[mine.stage]);
    float scores[kWarpKeys / 2], factor[2];
    matmuls.score(scores, tile);
    prepare(scores, mine.stage, keys);
    if (weigh<true>(scores, rows, factor, p.scale_log2)) rescale(out, factor);
    u32 weights[kWarpKeys / 4];
    pack_weights<Element>(weights, scores);
    shared.ring.wait_for_values(mine);
    matmuls.see_copies();
    matmuls.add_values(out, weights, tile + Traits::kHalfBytes);
  }
  __device__ __forceinline__ void prepare(float (&scores)[kWarpKeys / 2], u32 stage, int keys) const {
    cap_scores(scores, p.cap_log2);
    forbid_keys(scores, stage, keys);
  }

  // A group's tiles from `mine` on, of `left` that both have. Scores of a tile are made, and weighed by the maxima so
  // far, while the values of the one before are multiplied. These were copied before the tile's keys: who waits for
  // them first waits no longer.
  __device__ __forceinline__ void add_trusting(const DecodeTask& task, Place mine, int left) {
    u32 weights[kWarpKeys / 4], held = 0;  // of the tile before, and its stage
    bool first = true;
#pragma unroll 1
    for (; left > 0; left -= kGroups, mine.advance(kGroups)) {
      shared.ring.wait_for_keys(mine);
      find_words(task, mine.stage);
      const u32 tile = shared_address(shared.stages[mine.stage]);
      float scores[kWarpKeys / 2], factor[2];
      matmuls.see_copies();
      matmuls.issue_scores(scores, tile);
      if (!first) {
        matmuls.issue_values(out, weights, shared_address(shared.stages[held]) + Traits::kHalfBytes);
        matmul_wait<1>();
      } else {
        matmul_wait<0>();
      }
      pin(scores);
      prepare(scores, mine.stage, task.keys);
      const bool weighed = !first && weigh_trusting(scores, rows, p.scale_log2);
      pin(scores);
      matmul_wait<0>();
      pin(out);
      if (!first) shared.ring.have_read(held, lane);
      if (!weighed) {
        if (!first) {
          matmuls.score_again(scores, tile);
          prepare(scores, mine.stage, task.keys);
        }
        if (weigh<true>(scores, rows, factor, p.scale_log2)) rescale(out, factor);
      }
      pack_weights<Element>(weights, scores);
      shared.ring.wait_for_values(mine);
      held = mine.stage, first = false;
    }
    if (first) return;
    matmuls.see_copies();
    matmuls.add_values(out, weights, shared_address(shared.stages[held]) + Traits::kHalfBytes);
  }

  // The same, a tile after the other; `mine` becomes the last one's place.
  __device__ __forceinline__ void add_plainly(const DecodeTask& task, Place& mine, int left) {
#pragma unroll 1
    for (; left > 0; left -= kGroups) {
      shared.ring.wait_for_keys(mine);
      find_words(task, mine.stage);
      add_tile(mine, task.keys);
      if (left <= kGroups) break;
      shared.ring.have_read(mine.stage, lane);
      if constexpr (kGroups == 1) mine.advance();
      else mine.advance(kGroups);
    }
  }

  // `count` tiles, which are on their way. The stage of a group's last one stays: parts of rows meet there.
  __device__ __forceinline__ void add_tiles(const DecodeTask& task, int count) {
    groups = min(count, kGroups);
    Place mine = at;
    if (kGroups > 1) mine.advance(static_cast<u32>(group));
    if constexpr (Traits::kTrusts) add_trusting(task, mine, count - group);
    else add_plainly(task, mine, count - group);
    if constexpr (kGroups == 1) {
      lasts[0] = mine.stage;
      at = mine, at.advance();
    } else {
#pragma unroll
      for (int i = 0; i < kGroups; ++i) lasts[i] = (at.stage + last_tile(i, count)) % Traits::kStages;
      at.advance(static_cast<u32>(count));
    }
  }
  // Of a group's.
  __device__ __forceinline__ static u32 last_tile(int group, int count) {
    return static_cast<u32>(max(count - 1 - group, 0) / kGroups * kGroups + group);
  }
  // By a warp that is done with what lies there, as a second group is before the first.
  __device__ __forceinline__ void give_last_stages() {
    if (group > 0) return;  // a stage waits for the warps of one group
#pragma unroll
    for (int i = 0; i < kGroups; ++i)
      if (i < groups) shared.ring.have_read(lasts[i], lane);
  }

  __device__ __forceinline__ static void meet_readers() { named_barrier<1, Traits::kReaderThreads>(); }

  __device__ __forceinline__ float* part_memory(int of_group) const {
    u32 stage = lasts[0];  // without an index that varies, which would put the whole block into memory
#pragma unroll
    for (int i = 1; i < kGroups; ++i)
      if (i == of_group) stage = lasts[i];
    return reinterpret_cast<float*>(shared.stages[stage]);
  }
};

}  // namespace stof::cuda
