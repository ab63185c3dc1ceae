// SPDX-License-Identifier: Apache-2.0
// Sizes of the GEMM kernel: its tile, how a CTA's warpgroups and a cluster's CTAs divide the work, shared memory,
// registers, and the order of the tiles.
#pragma once
#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/ring.cuh"
#include "kernels/cuda/storage.cuh"
#include "kernels/cuda/wgmma.cuh"
#include "kernels/shared/gemm.h"

namespace stof::cuda {

// The numbers of MatmulSetting. A team is `warpgroups`, one above the other on a tile; teams take the CTA's tiles in
// turns, so that one multiplies while another writes. `split` CTAs, a cluster, have one tile and a part of the inner
// dimension each; `share` CTAs, a cluster, have tiles below each other and load the weight's part of them together.
struct GemmShape {
  int rows, columns, stages, warpgroups, teams, split, share = 1;
};

struct GemmEpilogue {
  int activation = kNoActivation;  // ActivationCode
  bool bias = false, residual = false, x_norm = false, residual_norm = false, moments = false;
  // Columns come in pairs of 8: out has activation(first) * second, half as many.
  bool gate = false;
  // Pairs of columns of q and k are turned by the position of their row.
  bool turned = false;
};

template <class Element>
struct StorageOf;
template <>
struct StorageOf<Half> {
  using Type = StoredHalf;
};
template <>
struct StorageOf<Bfloat> {
  using Type = StoredBfloat;
};

// A tile's output leaves in boxes: of 64 columns as long as they fit, then one each of 32, 16 and 8 where the rest has
// that bit. Each is swizzled over its own width, as the copy engine does it: piece j of row r, 16 bytes, lies at
// r * kPitch + ((j ^ swap(r)) << 4).
template <int kTileColumns, int kBox>
struct OutBox {
  static constexpr int kFirst = OutBox<kTileColumns, kBox - 1>::kFirst + OutBox<kTileColumns, kBox - 1>::kColumns;
  static constexpr int kLeft = kTileColumns - kFirst;
  static constexpr int kColumns = kLeft >= 64 ? 64 : kLeft >= 32 ? 32 : kLeft >= 16 ? 16 : 8;
  static constexpr int kPitch = 2 * kColumns;
  static __device__ __forceinline__ int swap(int row) {
    return static_cast<int>(static_cast<u32>(row) / (64 / kColumns)) & (kColumns / 8 - 1);
  }
  template <class Maps>
  static __device__ __forceinline__ const TensorMap& out(const Maps& maps) {
    if constexpr (kColumns == 64) return maps.out;
    else return maps.narrow_out[kColumns == 32 ? 0 : kColumns == 16 ? 1 : 2];
  }
  template <class Maps>
  static __device__ __forceinline__ const TensorMap& residual(const Maps& maps) {
    if constexpr (kColumns == 64) return maps.residual;
    else return maps.narrow_residual[kColumns == 32 ? 0 : kColumns == 16 ? 1 : 2];
  }
};
// In front of the first.
template <int kTileColumns>
struct OutBox<kTileColumns, -1> {
  static constexpr int kFirst = 0, kColumns = 0;
};

// Narrow boxes have maps of their own.
template <bool kWholeBoxes>
struct MapsOf {
  using Type = GemmMaps;
};
template <>
struct MapsOf<false> {
  using Type = GemmNarrowMaps;
};

template <class Element_, GemmShape kShape, GemmEpilogue kEpilogue_>
struct GemmTraits {
  using Element = Element_;
  using Storage = typename StorageOf<Element>::Type;
  static constexpr GemmEpilogue kEpilogue = kEpilogue_;
  static constexpr int kRows = kShape.rows, kColumns = kShape.columns, kStages = kShape.stages;
  static constexpr int kWarpgroups = kShape.warpgroups, kTeams = kShape.teams, kSplit = kShape.split;
  static constexpr int kShare = kShape.share, kCluster = kSplit * kShare;
  static constexpr int kBlocks = kRows / (64 * kWarpgroups);  // of 64 rows, that a warpgroup has
  static constexpr int kOutColumns = kEpilogue.gate ? kColumns / 2 : kColumns;
  static constexpr int kBoxes = kOutColumns / 64 + kOutColumns / 32 % 2 + kOutColumns / 16 % 2 + kOutColumns / 8 % 2;
  static constexpr bool kWholeBoxes = kOutColumns % kBoxColumns == 0;
  static constexpr bool kBoxOfHead = kWholeBoxes && kShape.split == 1;  // heads have 64 columns or more
  using Maps = typename MapsOf<kWholeBoxes>::Type;
  static constexpr int kWarps = 4 * kWarpgroups;  // of a team
  static constexpr int kConsumers = kWarpgroups * kTeams;
  static constexpr int kThreads = 128 * (kConsumers + 1);
  static_assert(kRows == 64 * kWarpgroups * kBlocks && kColumns % 8 == 0 && kRows <= 256 && kColumns <= 256);
  static_assert(kShare == 1 || (kSplit == 1 && kColumns % (8 * kShare) == 0), "whole swizzled rows of 8 for each CTA");
  static_assert(kWholeBoxes || !kEpilogue.moments, "a tile has whole pieces of moments");
  static_assert(!kEpilogue.gate || (kColumns % 16 == 0 && kSplit == 1 && !kEpilogue.residual && !kEpilogue.moments),
                "pairs are whole, and nothing follows their product");
  static_assert(!kEpilogue.turned || (kEpilogue.activation == kNoActivation && !kEpilogue.residual &&
                                      !kEpilogue.moments && !kEpilogue.gate),
                "nothing follows a turn");
  static_assert(kSplit == 1 || (kTeams == 1 && kBlocks == 1 && kRows / 16 % kSplit == 0),
                "sums of a split tile are divided by groups of 16 rows");

  // In a transformer what a matmul with a residual reads is read by nothing else, and of many rows it would push out
  // what is: x leaves the L2 first. Few rows, which mostly have other tiles, push nothing out.
  static constexpr bool kReadsXOnce = kEpilogue.residual && kRows * kColumns >= 128 * 128 && kSplit == 1;

  static constexpr u32 kXBytes = kRows * kRowBytes, kWBytes = kColumns * kRowBytes;
  static constexpr u32 kOutBytes = kSplit > 1 ? 16 : kRows* kOutColumns * 2;
  static constexpr int kOwnRows = kRows / kSplit;  // that this CTA writes

  // What an epilogue uses of a tile's columns, in this order, and of its rows: {-mean / deviation, 1 / deviation}, and
  // where they stand in their text.
  static constexpr bool kHasBias = kEpilogue.bias || kEpilogue.x_norm;
  static constexpr int kBias = 0, kColumnSum = kHasBias, kScale = kColumnSum + kEpilogue.x_norm, kShift = kScale + 1;
  static constexpr int kVectors = kScale + 2 * kEpilogue.residual_norm;
  static constexpr bool kRowFacts = kEpilogue.x_norm || kEpilogue.residual_norm || kEpilogue.turned;
  static constexpr bool kHasFacts = kVectors > 0 || kRowFacts;
  struct Facts {
    alignas(16) float columns[kVectors > 0 ? kVectors : 1][kVectors > 0 ? kColumns : 4];
    float2 x_rows[kEpilogue.x_norm ? kOwnRows : 1], residual_rows[kEpilogue.residual_norm ? kOwnRows : 1];
    int positions[kEpilogue.turned ? kOwnRows : 1];
  };
  static constexpr int kSlots = kSplit > 1 ? 1 : 2;  // of tiles whose facts are there

  struct Shared {
    alignas(1024) unsigned char x[kStages][kXBytes];
    unsigned char w[kStages][kWBytes];
    unsigned char out[kOutBytes];  // by boxes
    // Of the rows that this CTA writes, the sums of every CTA, as vectors of 4 by column block and lane.
    float4 incoming[kSplit > 1 ? kSplit : 1][kSplit > 1 ? kOwnRows / 16 * (kColumns / 8) * 32 : 1];
    Facts facts[kSlots];
    float2 pieces[kSplit > 1 ? kWarps : 1][16];  // moments that warps put together
    u64 full[kStages], empty[kStages];
    u64 ready[kTeams][kBoxes];  // a box of out: the team may write it, and it holds the residual
    u64 staged[kBoxes];         // is written
    u64 turn[kTeams];           // the other team has taken its last step
    u64 facts_full[kSlots], facts_empty[kSlots];
    u64 all_sums;  // of every CTA have come
  };

  // Two CTAs of an SM where they fit; ctas_of of src/backend/cuda/matmul/settings.cpp.
  static constexpr int kCtas =
      (kConsumers == 1 || kRows * kColumns <= 128 * 64) && 2 * (sizeof(Shared) + 1024) <= 228 * 1024 ? 2 : 1;
  static_assert(sizeof(Shared) <= 227 * 1024, "shared memory of a CTA");
  // The launch gives each of 384 threads 168 registers; setmaxnreg deals in steps of 8.
  static constexpr bool kDealsRegisters = kConsumers == 2 && kCtas == 1;
  static constexpr bool kManySums = kBlocks * kColumns >= 384;
  static constexpr int kLoaderRegisters = kManySums ? 40 : 56, kConsumerRegisters = kManySums ? 232 : 224;
};

struct GemmTile {
  int row, column;
};

// Tiles of one CTA, in order. Those of a section's columns run fastest: CTAs that work at one time share rows of x and
// all of the section's weight, both in L2.
template <class Traits>
struct GemmTiles {
  static constexpr int kSection = kGemmSection;
  const GemmParams& p;
  int across, down;
  int rank, below;  // of the CTAs that have one tile; of those whose tiles share the weight
  int index, step, count;

  __device__ __forceinline__ explicit GemmTiles(const GemmParams& params) : p(params) {
    const int cta = static_cast<int>(blockIdx.x);
    across = (p.columns + Traits::kColumns - 1) / Traits::kColumns;
    down = (p.rows + Traits::kRows * Traits::kShare - 1) / (Traits::kRows * Traits::kShare);
    rank = Traits::kSplit > 1 ? cta % Traits::kSplit : 0;
    below = Traits::kShare > 1 ? cta % Traits::kShare : 0;
    index = cta / Traits::kCluster;
    step = static_cast<int>(gridDim.x) / Traits::kCluster;
    count = across * down;
  }
  __device__ __forceinline__ bool any() const { return index < count; }
  __device__ __forceinline__ int left() const { return (count - 1 - index) / step; }  // behind this one
  __device__ __forceinline__ void advance(int tiles = 1) { index += tiles * step; }
  __device__ __forceinline__ GemmTile tile() const {
    const int place = p.tile_base + p.tile_sign * index;
    const int section = across <= kSection ? 0 : place / (down * kSection), within = place - section * down * kSection;
    const int left = across - section * kSection, width = min(kSection, left);
    // In place of a division, which the first loads of the grid would wait for.
    const u32 inverse = left > kSection ? p.section_inverse : p.last_inverse;
    const int row = width == 1 ? within : static_cast<int>(__umulhi(static_cast<u32>(within), inverse));
    const int column = section * kSection + within - row * width;
    return {(row * Traits::kShare + below) * Traits::kRows, column * Traits::kColumns};
  }
};

// Steps along the inner dimension that this CTA has.
struct GemmSteps {
  int first, count;
};
template <class Traits>
__device__ __forceinline__ GemmSteps steps_of(const GemmParams& p, int rank) {
  const int all = (p.inner + kBoxColumns - 1) / kBoxColumns;
  if constexpr (Traits::kSplit == 1) return {0, all};
  const int first = rank * all / Traits::kSplit;
  return {first, (rank + 1) * all / Traits::kSplit - first};
}

}  // namespace stof::cuda
