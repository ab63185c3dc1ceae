// SPDX-License-Identifier: Apache-2.0
// The arithmetic by which CTAs share the tiles of a decode launch: the same on the device and in tests of the host.
#pragma once
#include "kernels/shared/decode_layout.h"

#ifdef __CUDACC__
#define STOF_ON_BOTH __device__ __forceinline__
#else
#define STOF_ON_BOTH inline
#endif

namespace stof::cuda {

// Units [begin, end) of all tasks' units in a row; `task` has the first of them, as its unit `offset`. Shares are cut
// in proportion, so that tasks of equal size are cut alike, and not at all where the CTAs are a multiple of them.
struct DecodeShare {
  int begin, end;
  int total, ctas, each, rest;  // total = ctas * each + rest
  int task, offset;

  STOF_ON_BOTH int begin_of(int cta) const { return cta * each + (rest > 0 ? cta * rest / ctas : 0); }
  STOF_ON_BOTH void take(int cta) {
    begin = begin_of(cta < ctas ? cta : ctas);
    end = begin_of(cta + 1 < ctas ? cta + 1 : ctas);
  }
  // Where each task has so many. guess: the task, or one off.
  STOF_ON_BOTH void find_task(int guess, int units) {
    task = guess, offset = begin - task * units;
    if (offset < 0) --task, offset += units;
    if (offset >= units) ++task, offset -= units;
  }
  STOF_ON_BOTH int cta_of(int unit) const {
    int cta = static_cast<int>(static_cast<float>(unit) / static_cast<float>(total) * static_cast<float>(ctas));
    if (cta > ctas - 1) cta = ctas - 1;
    while (begin_of(cta) > unit) --cta;
    while (begin_of(cta + 1) <= unit) ++cta;
    return cta;
  }
};

// Without its task and offset. CTAs that no unit is left for have empty shares behind the others.
STOF_ON_BOTH DecodeShare cut_share(int total, int most_ctas, int cta) {
  DecodeShare share{};
  share.total = total, share.ctas = total < most_ctas ? total : most_ctas;
  if (share.ctas < 1) share.ctas = 1;
  share.each = total / share.ctas, share.rest = total - share.each * share.ctas;
  share.take(cta);
  return share;
}

// How the task was cut that has units [begin, begin + units), of which the first `start` are no tiles.
STOF_ON_BOTH DecodeCut cut_of(const DecodeShare& share, int task, int begin, int units, int start) {
  DecodeCut cut{task, share.cta_of(begin + start), 0, 0};
  cut.count = share.cta_of(begin + units - 1) - cut.first + 1;
  cut.with_first = share.begin_of(cut.first) >= begin;
  return cut;
}

// What a share has of a task: tiles [first, first + count).
struct DecodeTiles {
  int first, count;
};

// Of a task of so many tiles that begins with unit `begin`, the units from `at` on.
STOF_ON_BOTH DecodeTiles tiles_of(const DecodeShare& share, int at, int begin, int tiles, int start) {
  if (tiles == 0) return {0, 0};
  const int from = at - begin - start,
            to = (share.end < begin + start + tiles ? share.end : begin + start + tiles) - begin - start;
  const int first = from > 0 ? from : 0, last = to > 0 ? to : 0;
  return {first, last - first};
}

}  // namespace stof::cuda
