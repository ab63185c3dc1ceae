// SPDX-License-Identifier: Apache-2.0
// Matrix product with what follows it in a transformer, with what sm_80 has: a CTA a tile, operands by asynchronous
// copies, products by single warps. The twin of gemm.cuh, with its epilogues.
#pragma once
#include "kernels/cuda/gemm_epilogue.cuh"
#include "kernels/cuda/gemm_facts.cuh"
#include "kernels/cuda/mma.cuh"

namespace stof::cuda {

// rows, columns: of a tile. stages: steps of 32 of the inner dimension in shared memory. A warp has 32 rows of 64
// columns: the fragments of a column block serve two slabs of rows.
struct MmaGemmShape {
  int rows, columns, stages;
};

template <class Element_, MmaGemmShape kShape, GemmEpilogue kEpilogue_>
struct MmaGemmTraits {
  using Element = Element_;
  using Storage = typename StorageOf<Element>::Type;
  static constexpr GemmEpilogue kEpilogue = kEpilogue_;
  static constexpr int kRows = kShape.rows, kColumns = kShape.columns, kStages = kShape.stages;
  static constexpr int kSplit = 1, kShare = 1, kCluster = 1, kDepth = 32, kWarpRows = 32, kWarpColumns = 64,
                       kSlabs = kWarpRows / 16;
  static constexpr int kWarpsDown = kRows / kWarpRows, kWarpsAcross = kColumns / kWarpColumns;
  static constexpr int kThreads = 32 * kWarpsDown * kWarpsAcross;
  static constexpr bool kBoxOfHead = true;  // a warp's 64 columns
  static_assert(kRows % kWarpRows == 0 && kColumns % kWarpColumns == 0 && kStages >= 2 && kThreads <= 512);
  using Rows = SwizzledRows<kDepth>;
  // Of the output, that a warp has.
  static constexpr int kPartColumns = kEpilogue.gate ? kWarpColumns / 2 : kWarpColumns;
  using OutRows = SwizzledRows<kPartColumns>;
  static_assert(!(kEpilogue.gate || kEpilogue.turned) || (!kEpilogue.residual && !kEpilogue.moments),
                "nothing follows the product of pairs, or a turn");

  static constexpr bool kHasBias = kEpilogue.bias || kEpilogue.x_norm;
  static constexpr int kBias = 0, kColumnSum = kHasBias, kScale = kColumnSum + kEpilogue.x_norm, kShift = kScale + 1;
  static constexpr int kVectors = kScale + 2 * kEpilogue.residual_norm;
  struct Facts {
    float columns[kVectors > 0 ? kVectors : 1][kVectors > 0 ? kColumns : 4];
    float2 x_rows[kEpilogue.x_norm ? kRows : 1], residual_rows[kEpilogue.residual_norm ? kRows : 1];
    int positions[kEpilogue.turned ? kRows : 1];
  };
  struct Stage {
    unsigned char x[kRows * Rows::kBytes], w[kColumns * Rows::kBytes];
  };
  struct Shared {
    alignas(128) Stage stages[kStages];  // and in the end the residual and the output, a part a warp
    alignas(16) Facts facts;
  };
  // Of an SM of 8.0, whose registers they share.
  static constexpr int kMostCtas = 160 * 1024 / (sizeof(Shared) + 1024), kThreadCtas = 512 / kThreads;
  static constexpr int kCtas = kMostCtas < kThreadCtas ? kMostCtas : kThreadCtas;
  static constexpr u32 kPartBytes = kWarpRows * OutRows::kBytes;
  static_assert(kPartBytes * (kThreads / 32) <= sizeof(Stage) * kStages, "the output fits the stages");
};

// What does not depend on the sums: vectors of the tile's columns, what normalises and turns its rows. Whole threads'
// work, followed by a barrier.
template <class Traits>
__device__ __forceinline__ void read_facts(typename Traits::Facts& facts, const GemmParams& p, const GemmTile& tile) {
  constexpr GemmEpilogue kEpilogue = Traits::kEpilogue;
  const int thread = static_cast<int>(threadIdx.x);
  const auto read = [&](int which, const float* vector) {
    for (int i = thread; i < Traits::kColumns; i += Traits::kThreads)
      facts.columns[which][i] = __ldg(vector + tile.column + i);
  };
  if constexpr (Traits::kHasBias) read(Traits::kBias, p.bias);
  if constexpr (kEpilogue.x_norm) read(Traits::kColumnSum, p.column_sum);
  if constexpr (kEpilogue.residual_norm) read(Traits::kScale, p.scale), read(Traits::kShift, p.shift);
  if constexpr (kEpilogue.turned) {
    for (int i = thread; i < Traits::kRows; i += Traits::kThreads)
      facts.positions[i] = __ldg(p.positions + min(tile.row + i, p.rows - 1));
  }
  constexpr int kLanes = Traits::kThreads < Traits::kRows ? Traits::kThreads : Traits::kRows;
  constexpr int kCount = Traits::kRows / kLanes;
  if (thread >= kLanes) return;
  const RowsOfLane which{tile.row, p.rows, thread};
  if constexpr (kEpilogue.x_norm) merge_rows<kCount, kLanes>(p.x_moments, p.inner, p.x_epsilon, which, facts.x_rows);
  if constexpr (kEpilogue.residual_norm)
    merge_rows<kCount, kLanes>(p.residual_moments, p.columns, p.residual_epsilon, which, facts.residual_rows);
}

// One tile, by its CTA.
template <class Traits>
struct MmaGemmTile {
  using Rows = typename Traits::Rows;
  using OutRows = typename Traits::OutRows;
  static constexpr int kSlabs = Traits::kSlabs, kStages = Traits::kStages, kBlocks = Traits::kWarpColumns / 8;
  typename Traits::Shared& shared;
  const MmaGemmParams& p;
  const GemmTile tile;
  int thread, lane, warp, first_row, first_column;  // of the warp, in the tile
  const unsigned short *x, *w;                      // of the thread's first piece
  float sums[kSlabs][4 * kBlocks] = {};

  __device__ __forceinline__ MmaGemmTile(typename Traits::Shared& memory, const MmaGemmParams& params,
                                         const GemmTile& which)
      : shared(memory),
        p(params),
        tile(which),
        thread(static_cast<int>(threadIdx.x)),
        lane(thread % 32),
        warp(uniform(thread / 32)),
        first_row(warp % Traits::kWarpsDown * Traits::kWarpRows),
        first_column(warp / Traits::kWarpsDown * Traits::kWarpColumns),
        x(piece_of(p.x, tile.row)),
        w(piece_of(p.weight, tile.column)) {}

  __device__ __forceinline__ const unsigned short* piece_of(const void* matrix, int row) const {
    return static_cast<const unsigned short*>(matrix) + static_cast<long long>(row + thread / Rows::kPieces) * p.inner +
           8 * (thread % Rows::kPieces);
  }

  // kCount rows of 32 elements of a matrix, of which `left` exist from the tile's first row on; zeros for what does
  // not. A thread has one piece of every kStride-th row, swapped alike in all of them.
  template <int kCount>
  __device__ __forceinline__ void copy(unsigned char* to, const unsigned short* from, int left, bool there) const {
    constexpr int kStride = Traits::kThreads / Rows::kPieces;
    static_assert(kCount % kStride == 0 && kStride % 8 == 0);
    const int row = thread / Rows::kPieces;
    const u32 at = shared_address(to) + Rows::offset(row, thread % Rows::kPieces);
#pragma unroll
    for (int i = 0; i < kCount / kStride; ++i)
      copy_piece(at + i * kStride * Rows::kBytes, from + static_cast<long long>(i * kStride) * p.inner,
                 there && row + i * kStride < left);
  }
  // A group of copies, empty past the last step.
  __device__ __forceinline__ void load(int step, int steps) const {
    if (step < steps) {
      auto& stage = shared.stages[step % kStages];
      const int element = step * Traits::kDepth + 8 * (thread % Rows::kPieces);
      copy<Traits::kRows>(stage.x, x + step * Traits::kDepth, p.rows - tile.row, element < p.inner);
      copy<Traits::kColumns>(stage.w, w + step * Traits::kDepth, p.columns - tile.column, element < p.inner);
    }
    commit_copies();
  }

  __device__ __forceinline__ void multiply_all() {
    const int steps = (p.inner + Traits::kDepth - 1) / Traits::kDepth;
    for (int step = 0; step < kStages - 1; ++step) load(step, steps);
    for (int step = 0; step < steps; ++step) {
      wait_for_copies_but<kStages - 2>();
      __syncthreads();  // everybody's copies; and nobody is still at the stage that is overwritten now
      load(step + kStages - 1, steps);
      multiply(shared.stages[step % kStages]);
    }
    __syncthreads();  // what is left of the copies is empty, and the stages are free
  }

  __device__ __forceinline__ void multiply(const typename Traits::Stage& stage) {
    const u32 x_at = shared_address(stage.x) + Rows::offset(first_row + lane % 16, lane / 16);
    const u32 w_at = shared_address(stage.w) + Rows::offset(first_column + lane / 16 * 8 + lane % 8, lane / 8 % 2);
#pragma unroll
    for (int k = 0; k < Traits::kDepth / 16; ++k) {
      u32 rows[kSlabs][4];
#pragma unroll
      for (int slab = 0; slab < kSlabs; ++slab)
        load_fragments(rows[slab], Rows::along(x_at, 2 * k) + slab * 16 * Rows::kBytes);
#pragma unroll
      for (int block = 0; block < kBlocks; block += 2) {
        u32 columns[4];
        load_fragments(columns, Rows::along(w_at, 2 * k) + block * 8 * Rows::kBytes);
#pragma unroll
        for (int slab = 0; slab < kSlabs; ++slab) {
          multiply_add<typename Traits::Element>(sums[slab] + 4 * block, rows[slab], columns[0], columns[1]);
          multiply_add<typename Traits::Element>(sums[slab] + 4 * block + 4, rows[slab], columns[2], columns[3]);
        }
      }
    }
  }

  // The warp's part of the stages, 32 rows of 64 columns.
  __device__ __forceinline__ u32 part() const {
    return shared_address(shared.stages) + static_cast<u32>(warp) * Traits::kPartBytes;
  }
  // Pieces of 16 bytes of the part, a row's by 8 lanes beside each other: their number, and where they are in a matrix.
  template <class See>
  __device__ __forceinline__ void for_each_piece(See&& see) const {
#pragma unroll
    for (int i = 0; i < Traits::kWarpRows * OutRows::kPieces / 32; ++i) {
      constexpr int kShare = Traits::kEpilogue.gate ? 2 : 1;
      const int r = 32 / OutRows::kPieces * i + lane / OutRows::kPieces, piece = lane % OutRows::kPieces;
      const int row = tile.row + first_row + r, column = (tile.column + first_column) / kShare + 8 * piece;
      const int columns = p.columns / kShare;
      const bool there = row < p.rows && column < columns;
      see(part() + OutRows::offset(r, piece), there ? static_cast<long long>(row) * columns + column : 0, there);
    }
  }

  __device__ __forceinline__ void write() {
    if constexpr (Traits::kEpilogue.residual) {
      for_each_piece([&](u32 at, long long place, bool there) {
        copy_piece(at, static_cast<const unsigned short*>(p.residual) + place, there);
      });
      wait_for_copies();
      __syncwarp();
    }
#pragma unroll
    for (int slab = 0; slab < kSlabs; ++slab) {
      if constexpr (Traits::kEpilogue.gate) finish_pairs(slab);
      else finish(slab);
    }
    __syncwarp();
    for_each_piece([&](u32 at, long long place, bool there) {
      uint4 values;
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(values.x), "=r"(values.y), "=r"(values.z), "=r"(values.w)
                   : "r"(at)
                   : "memory");
      if (there) *reinterpret_cast<uint4*>(static_cast<unsigned short*>(p.out) + place) = values;
    });
  }

  __device__ __forceinline__ void finish_pairs(int slab) {
    const int row = 16 * slab + lane / 4;
    const RowNorms norms = norms_of<Traits>(shared.facts, first_row + row);
#pragma unroll
    for (int block = 0; block < kBlocks; block += 2) {
      u32 stored[2];
      add_to(slab, block, norms), add_to(slab, block + 1, norms);
      finish_pair<Traits>(sums[slab] + 4 * block, stored);
      store_words(part() + OutRows::offset(row, block / 2) + lane % 4 * 4, stored);
    }
  }

  __device__ __forceinline__ int column_of(int block) const { return first_column + 8 * block + lane % 4 * 2; }
  __device__ __forceinline__ void add_to(int slab, int block, const RowNorms& norms) {
    add_columns<Traits>(sums[slab] + 4 * block, columns_of<Traits>(shared.facts, column_of(block)), norms);
  }

  // Of two rows, 8 apart.
  static __device__ __forceinline__ void store_words(u32 at, const u32 (&words)[2]) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
      asm volatile("st.shared.u32 [%0], %1;" ::"r"(at + i * 8 * OutRows::kBytes), "r"(words[i]) : "memory");
  }

  // 16 rows, through the part that holds the residual and takes the output.
  __device__ __forceinline__ void finish(int slab) {
    const int row = 16 * slab + lane / 4;  // of the part, and the one 8 below
    const RowPair rows = rows_of<Traits>(p, tile, shared.facts, first_row + row, column_of(0));
    const RowNorms norms = norms_of<Traits>(shared.facts, first_row + row);
    RowMoments moments[2];
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const u32 at = part() + OutRows::offset(row, block) + lane % 4 * 4;
      u32 residual[2] = {}, stored[2];
      if constexpr (Traits::kEpilogue.residual) {
#pragma unroll
        for (int i = 0; i < 2; ++i)
          asm volatile("ld.shared.u32 %0, [%1];" : "=r"(residual[i]) : "r"(at + i * 8 * OutRows::kBytes) : "memory");
      }
      add_to(slab, block, norms);
      finish_block<Traits>(sums[slab] + 4 * block, shared.facts, column_of(block), rows, residual, stored);
      if constexpr (Traits::kEpilogue.moments)
        add_moments<typename Traits::Storage>(moments, stored, block, p.columns - tile.column - first_column);
      store_words(at, stored);
    }
    if constexpr (Traits::kEpilogue.moments) {
      const int column = tile.column + first_column;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float2 whole = moments[i].of_quad(quarter_of(8 * kBlocks, p.columns - column));
        if (lane % 4 == 0) store_moments(p, tile.row + first_row + row + 8 * i, column, whole);
      }
    }
  }
};

// out = activation(norm(x) w^T + bias) + norm(residual), stored in 16 bits; x [rows, inner], w [columns, inner].
// Or, with heads of q and k turned by the positions of rows: turned(norm(x) w^T + bias).
// Grid: as many CTAs as there are tiles.
// Needs: columns and inner multiples of 8, rows of all matrices contiguous, addresses multiples of 16.
// Writes: rows below `rows`, each element once; moments of them.
template <class Traits>
__global__ void __launch_bounds__(Traits::kThreads, Traits::kCtas)
    mma_gemm_kernel(const __grid_constant__ MmaGemmParams p) {
  extern __shared__ __align__(128) unsigned char raw[];
  auto& shared = *reinterpret_cast<typename Traits::Shared*>(raw);
  const GemmTile tile = GemmTiles<Traits>(p).tile();
  read_facts<Traits>(shared.facts, p, tile);
  MmaGemmTile<Traits> work(shared, p, tile);
  work.multiply_all();
  work.write();
}

}  // namespace stof::cuda
