// SPDX-License-Identifier: Apache-2.0
// Masked attention of few queries over many keys, which lie in rows or in pages: bound by the bandwidth of the memory.
// Four warps of a CTA copy, so that a tile's instructions are not between one tile's copies and the next one's.
// Queries of all heads of a key head are the rows of one matmul; the keys of all items are shared out evenly over the
// CTAs. Where a task was cut each leaves a part, and the last of them adds up what are few or small; else a second
// launch does (decode_sum.cuh).
#pragma once
#include "kernels/cuda/decode_results.cuh"

namespace stof::cuda {

// Tiles [first, first + count) of a task whose units begin at `begin` among all units.
struct DecodePiece {
  DecodeTask task;
  int index, begin, first, count;
  bool with_first;  // the first that this CTA has
  __device__ __forceinline__ bool whole() const { return count == task.tiles; }
};

template <class Traits>
struct DecodeReader : DecodeResults<Traits> {
  using Results = DecodeResults<Traits>;
  using Results::add_tiles, Results::begin, Results::finish, Results::give_last_stages, Results::kHeadDim,
      Results::meet_readers, Results::p, Results::part_memory, Results::result_row, Results::shared, Results::thread,
      Results::write_nothing;
  using Element = typename Traits::Element;
  using Part = typename Results::Part;
  const DecodeShare& share;
  bool has_cut = false;  // of a task that ends here

  __device__ __forceinline__ void read(const DecodePiece& piece) {
    const DecodeTask& task = piece.task;
    if (task.tiles == 0) {
      wait_for_inputs(p);
      return write_nothing(task);
    }
    begin(task);
    DecodeCut cut{0, 0, 0, 0};
    if (!piece.whole() && !p.sums_of_tasks) {
      cut = cut_of(share, piece.index, piece.begin, task.units, p.start);
      if (p.cuts && piece.first + piece.count == task.tiles) {
        has_cut = true;
        if (thread == 0) p.cuts[blockIdx.x] = cut;
      }
    }
    add_tiles(task, piece.count);
    finish(task, Part::of(p, static_cast<int>(blockIdx.x), piece.with_first), piece.whole());
    if (!piece.whole() && p.arrivals && is_last(cut)) {
      add_up(task, cut);
      meet_readers();
    }
    give_last_stages();
  }

  // At the end.
  __device__ __forceinline__ void say_no_cut() const {
    if (!p.cuts || has_cut) return;
    wait_for_inputs(p);
    if (thread == 0) p.cuts[blockIdx.x].count = 0;
  }

 private:
  // Whether all other parts of the task are there, for all to see.
  __device__ __forceinline__ bool is_last(const DecodeCut& cut) {
    int* const arrivals = p.arrivals + cut.first + cut.count - 1;  // of the tasks of a CTA one ends with it
    meet_readers();
    if (thread == 0) {
      shared.last = add_and_order(arrivals, 1) == cut.count - 1;
      if (shared.last) *arrivals = 0;
    }
    meet_readers();
    return shared.last;
  }
  __device__ __forceinline__ void add_up(const DecodeTask& task, const DecodeCut& cut) const {
    constexpr int kFours = kHeadDim / 4;
    // A part after the other, of several places at once; else one place after the other, of all parts at once.
    if (cut.count * Traits::kReaderThreads <= task.rows * kFours) return add_up_few(task, cut);
    for (int at = thread; at - thread < task.rows * kFours; at += Traits::kReaderThreads) {
      const bool there = at < task.rows * kFours;
      const int r = there ? at / kFours : 0, column = at % kFours * 4;
      const ResultRow row = result_row(task, r);
      const RowPart total = sum_of_parts<Part, kHeadDim>(p, cut, part_memory(0), r, column, 0, cut.count, cut.count);
      if (there && column < p.head_dim) row.write<Element>(column, total, p.scale_log2);
    }
  }

  __device__ __forceinline__ void add_up_few(const DecodeTask& task, const DecodeCut& cut) const {
    constexpr int kFours = kHeadDim / 4, kAtOnce = 8;
    const int places = task.rows * kFours;
#pragma unroll 1
    for (int from = thread; from < places; from += kAtOnce * Traits::kReaderThreads) {
      RowPart totals[kAtOnce];
#pragma unroll
      for (RowPart& total : totals) total = no_part();
#pragma unroll 1
      for (int i = 0; i < cut.count; ++i) {
        const Part part = Part::of(p, cut.first + i, i > 0 || cut.with_first);
        RowPart read[kAtOnce];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) read[j] = part.read(min(from + j * Traits::kReaderThreads, places - 1));
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) add_part(totals[j], read[j], p.scale_log2);
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int at = from + j * Traits::kReaderThreads, column = at % kFours * 4;
        if (at < places && column < p.head_dim)
          result_row(task, at / kFours).template write<Element>(column, totals[j], p.scale_log2);
      }
    }
  }
};

// By those that load, some tiles before readers want them: in the L2 they are a microsecond nearer.
template <class Traits>
__device__ __forceinline__ void ask_for_queries(const DecodeParams& p, const DecodeTask& task) {
  constexpr int kOfLine = 64, kLines = Traits::kHeadDim / kOfLine;  // elements; lines of a row
  for (int i = static_cast<int>(threadIdx.x) - Traits::kReaderThreads; i < task.rows * kLines;
       i += Traits::kLoaderThreads)
    if (i % kLines * kOfLine < p.head_dim) prefetch_line(query_row<Traits>(p, task, i / kLines) + i % kLines * kOfLine);
}

template <class Traits>
__device__ __forceinline__ void load_piece(typename Traits::Shared& shared, const DecodeParams& p,
                                           const DecodePiece& piece, RingPlace<Traits::kStages>& at) {
  if (piece.count == 0) return;
  if (!piece.with_first) ask_for_queries<Traits>(p, piece.task);
  DecodeLoader<Traits> loader(shared, p, piece.task, piece.first);
#pragma unroll 1
  for (int i = 0; i < piece.count; ++i) {
    shared.ring.wait_until_empty(at);
    loader.load(at.stage);
    at.advance();
  }
}

// Calls each(piece) for what the share has of each task.
template <bool kConstants, class Each>
__device__ __forceinline__ void for_pieces(const DecodeTasks& tasks, const DecodeShare& share, const Each& each) {
  int at = share.begin, begin = share.begin - share.offset;
#pragma unroll 1
  for (int index = share.task; at < share.end; ++index) {
    const DecodeTask task = tasks.at<kConstants>(index);
    const DecodeTiles tiles = tiles_of(share, at, begin, task.tiles, tasks.p.start);
    if (task.units > 0 && (tiles.count > 0 || task.tiles == 0))
      each(DecodePiece{task, index, begin, tiles.first, tiles.count, at == share.begin});
    begin += task.units;
    at = begin;
  }
}

// out = softmax(scale q k^T, over the allowed keys) v; rows without a key give 0 and LSE -inf.
// Grid: p.ctas. Needs: head_dim a multiple of 8; q, k, v, out and their strides, pages' included, at multiples of 16
// bytes; of an item at most 16 queries, whose positions the layout has.
template <class Traits>
__global__ void __launch_bounds__(Traits::kBoundThreads, Traits::kCtas)
    decode_attention_kernel(const __grid_constant__ DecodeParams p) {
  extern __shared__ __align__(1024) unsigned char raw[];
  auto& shared = *reinterpret_cast<typename Traits::Shared*>(raw);
  // What the plan made may be read before the previous grid ends, what calls bring may not.
  if (p.key_lengths || p.item_list) wait_for_inputs(p);
  if (p.follows) __threadfence();  // in place of the wait, behind which nothing stale is read
  allow_overlap();
  if (threadIdx.x == 0) shared.ring.make();
  const DecodeTasks tasks{p};
  const DecodeShare share = share_of_cta(tasks, reinterpret_cast<int*>(shared.stages), shared.sums, shared.found);
  if (threadIdx.x >= Traits::kReaderThreads) {
    if constexpr (Traits::kDealsRegisters) give_registers<Traits::kLoaderRegisters>();
    RingPlace<Traits::kStages> at;
    for_pieces<Traits::kConstantItems>(tasks, share,
                                       [&](const DecodePiece& piece) { load_piece<Traits>(shared, p, piece, at); });
  } else {
    if constexpr (Traits::kDealsRegisters) take_registers<Traits::kReaderRegisters>();
    DecodeReader<Traits> reader{{{shared, p}}, share};
    for_pieces<Traits::kConstantItems>(tasks, share, [&](const DecodePiece& piece) { reader.read(piece); });
    reader.say_no_cut();
  }
  // Who waits for this grid waits for the one beside it. One CTA stays for that: others of this grid may want the
  // places.
  if (p.follows && blockIdx.x == 0) wait_for_inputs();
}

}  // namespace stof::cuda
