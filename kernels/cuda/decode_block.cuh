// SPDX-License-Identifier: Apache-2.0
// What a CTA of the decode kernels does with tiles of a task: scores, weights, values, and its result for rows.
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

struct DecodeShape {
  int ctas;            // what fits an SM
  int row_warps;       // of the four warps that read, 16 rows each; the others take other keys of the same rows
  int warpgroups = 0;  // where there are, each has the rows of four warps, and they take the tiles in turns
};

template <class Element_, int kHeadDim_, DecodeShape kShape>
struct DecodeTraits {
  using Element = Element_;
  static constexpr int kHeadDim = kHeadDim_, kRowWarps = kShape.row_warps, kWarpgroups = kShape.warpgroups;
  static_assert(kWarpgroups == 0 || kRowWarps == 4, "rows of a warpgroup");
  static constexpr int kGroups = kWarpgroups > 0 ? kWarpgroups : 1;  // of readers, which have tiles of their own
  static constexpr int kReaders = 4 * kGroups, kKeyWarps = kReaders / kRowWarps, kRows = 16 * kRowWarps;
  static constexpr int kReaderThreads = 32 * kReaders, kLoaderThreads = 128, kThreads = kReaderThreads + kLoaderThreads;
  static constexpr int kTileKeys = DecodeList::kTileKeys, kWarpKeys = kTileKeys * kGroups / kKeyWarps;
  static constexpr u32 kHalfBytes = kTileKeys * kHeadDim * 2;  // the keys of a tile, or its values
  static constexpr u32 kQueryBytes = kWarpgroups > 0 ? kRows* kHeadDim * 2 : 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  static constexpr int kCtas = 1;
  static constexpr u32 kRingBytes = kHeadDim == 256 ? 128 * 1024 : 96 * 1024;
#else
  static constexpr int kCtas = kShape.ctas;
  static constexpr u32 kRingBytes = 192 * 1024 / kCtas;
#endif
  // Registers are dealt as if there were more threads: what these would have is for CTAs of decode_sum_kernel, which
  // begin beside this one. Threads that load need few of theirs; setmaxnreg deals in steps of 8, up to 240.
  static constexpr bool kDealsRegisters = kCtas == 2 || kWarpgroups > 0;
  static constexpr int kBoundThreads = kWarpgroups > 0 ? kThreads + 128 : kThreads;
  static constexpr int kLoaderRegisters = kHeadDim == 256 ? 56 : 40;
  static constexpr int kLeft = 65536 / kCtas / kBoundThreads / 8 * 8 * kThreads - kLoaderRegisters * kLoaderThreads;
  static constexpr int kReaderRegisters = kLeft / kReaderThreads < 240 ? kLeft / kReaderThreads / 8 * 8 : 240;
  static constexpr int kStages = kRingBytes / (2 * kHalfBytes);

  struct Shared : QueryTiles<kQueryBytes> {
    alignas(1024) unsigned char stages[kStages][2 * kHalfBytes];
    alignas(16) unsigned long long words[kStages][DecodeList::kRows];
    DecodeRing<kStages> ring;
    float2 stats[kReaders][16];  // of the warps' parts
    int sums[4], found[2];
    int last;  // whether this CTA left the last part of a task
  };
  static_assert(sizeof(Shared) <= 227 * 1024, "shared memory of a CTA");
  static_assert(sizeof(float) * 4 * WarpPart<kHeadDim>::kFloats == 2 * kHalfBytes, "parts of a group meet in a stage");
  static_assert(sizeof(int) * DecodeParams::kMostTasks <= kStages * 2 * kHalfBytes, "tasks are counted in the ring");
};

template <class Traits>
struct DecodeBlock {
  using Element = typename Traits::Element;
  using Place = RingPlace<Traits::kStages>;
  static constexpr int kHeadDim = Traits::kHeadDim, kWarpKeys = Traits::kWarpKeys, kGroups = Traits::kGroups;

  typename Traits::Shared& shared;
  const DecodeParams& p;
  int thread, lane, group, row_warp, key_warp;
  Place at;            // of the first tile of the task to come
  u32 lasts[kGroups];  // stages of the groups' last tiles
  int groups;          // that had tiles
  DecodeMatmuls<Traits> matmuls;
  int bit_rows[2];  // of this thread's rows, in mask words
  float out[kHeadDim / 2];
  RowStats rows;

  // By all that read.
  __device__ __forceinline__ DecodeBlock(typename Traits::Shared& memory, const DecodeParams& params)
      : shared(memory), p(params), thread(static_cast<int>(threadIdx.x)), matmuls(memory, thread) {
    const int warp = thread / 32;
    lane = thread % 32;
    group = warp / 4;
    row_warp = Traits::kWarpgroups > 0 ? warp % 4 : warp / Traits::kKeyWarps;
    key_warp = Traits::kWarpgroups > 0 ? group : warp % Traits::kKeyWarps;
  }

  __device__ __forceinline__ void begin(const DecodeTask& task) {
    matmuls.load_queries(p, task);
    rows.reset();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = row_of(i);
      bit_rows[i] = task.position + task.place_of(r < task.rows ? r : 0).query;
    }
#pragma unroll
    for (int i = 0; i < kHeadDim / 2; ++i) out[i] = 0.f;
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
      u64 word = tile.bitmap < 0 ? existing : existing & shared.words[stage][bit_rows[i]];
      word >>= (Traits::kWarpgroups > 0 ? 0 : key_warp * kWarpKeys) + lane % 4 * 2;
#pragma unroll
      for (int j = 0; j < kWarpKeys / 8; ++j)
#pragma unroll
        for (int column = 0; column < 2; ++column)
          if (!(word >> (8 * j + column) & 1)) scores[4 * j + 2 * i + column] = kMinusInfinity;
    }
  }

  __device__ __forceinline__ void add_tile(u32 stage, int keys) {
    const u32 tile = shared_address(shared.stages[stage]);
    float scores[kWarpKeys / 2];
    matmuls.score(scores, tile);
    cap_scores(scores, p.cap_log2);
    forbid_keys(scores, stage, keys);
    float factor[2];
    if (weigh<true>(scores, rows, factor, p.scale_log2)) rescale(out, factor);
    u32 weights[kWarpKeys / 4];
    pack_weights<Element>(weights, scores);
    matmuls.add_values(out, weights, tile + Traits::kHalfBytes);
  }

  // `count` tiles, which are on their way. The stage of a group's last one stays: its part is left there.
  __device__ __forceinline__ void add_tiles(const DecodeTask& task, int count) {
    groups = min(count, kGroups);
    Place mine = at;
    if (kGroups > 1) mine.advance(static_cast<u32>(group));
#pragma unroll 1
    for (int left = count - group; left > 0; left -= kGroups) {
      shared.ring.wait_until_full(mine);
      add_tile(mine.stage, task.keys);
      if (left <= kGroups) break;
      shared.ring.have_read(mine.stage, lane);
      if constexpr (kGroups == 1) mine.advance();
      else mine.advance(kGroups);
    }
    if constexpr (kGroups == 1) {
      lasts[0] = mine.stage;
      at = mine, at.advance();
    } else {
#pragma unroll
      for (int i = 0; i < kGroups; ++i) lasts[i] = (at.stage + last_tile(i, count)) % Traits::kStages;
      at.advance(static_cast<u32>(count));
    }
    meet_readers();
  }
  // Of a group's.
  __device__ __forceinline__ static u32 last_tile(int group, int count) {
    return static_cast<u32>(max(count - 1 - group, 0) / kGroups * kGroups + group);
  }
  // Once all groups have read the parts that lie there.
  __device__ __forceinline__ void give_last_stages() {
    if constexpr (kGroups > 1) meet_readers();
    if (group > 0) return;  // a stage waits for four warps
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
  // Of the rows of `rows_of` and the keys of `keys_of`.
  __device__ __forceinline__ WarpPart<kHeadDim> part(int rows_of, int keys_of) const {
    constexpr int kFloats = WarpPart<kHeadDim>::kFloats;
    float2* const stats = shared.stats[rows_of * Traits::kKeyWarps + keys_of];
    if constexpr (Traits::kWarpgroups > 0) return {part_memory(keys_of) + rows_of * kFloats, stats};
    else return {part_memory(0) + (rows_of * Traits::kKeyWarps + keys_of) * kFloats, stats};
  }

  __device__ __forceinline__ void leave_part(int task_rows) {
    const WarpPart<kHeadDim> mine = part(row_warp, key_warp);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = lane / 4 + 8 * i;
      if (group >= groups || 16 * row_warp + r >= task_rows) break;
#pragma unroll
      for (int j = 0; j < kHeadDim / 8; ++j)
        *reinterpret_cast<float2*>(mine.at(r, 8 * j) + lane % 4 * 2) =
            make_float2(out[4 * j + 2 * i], out[4 * j + 2 * i + 1]);
      if (lane % 4 == 0) mine.stats[r] = make_float2(rows.maximum[i], rows.sum[i]);
    }
    meet_readers();
  }

  // Of row r over the keys of all warps.
  __device__ __forceinline__ RowPart part_of_cta(int r, int column) const {
    RowPart total = no_part(), found[Traits::kKeyWarps];
#pragma unroll
    for (int i = 0; i < Traits::kKeyWarps; ++i) {
      found[i] = kGroups == 1 || i < groups ? part(r / 16, i).read(r % 16, column) : no_part();
      total.maximum = fmaxf(total.maximum, found[i].maximum);
    }
#pragma unroll
    for (int i = 0; i < Traits::kKeyWarps; ++i)
      add_share(total, found[i], share_of(found[i].maximum, total.maximum, p.scale_log2));
    return total;
  }

  // Calls each(row, column) for four columns at a time.
  template <class Each>
  __device__ __forceinline__ void for_columns(const DecodeTask& task, const Each& each) const {
    constexpr int kFours = kHeadDim / 4;
#pragma unroll 2
    for (int i = thread; i < task.rows * kFours; i += Traits::kReaderThreads)
      if (i % kFours * 4 < p.head_dim) each(i / kFours, i % kFours * 4);
  }
};

}  // namespace stof::cuda
