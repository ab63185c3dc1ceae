// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda/stream_variants.cuh"

namespace stof::bench {

template <class Element>
void by_head_dim(const Problem& problem, const StreamTuning& tuning) {
  const int d = problem.sizes.head_dim;
  if (d <= 32) run_stream<StreamTraits<Element, 32, StreamShape{2, 2, 1, 3, 1}>>(problem, tuning);
  else if (d <= 64) run_stream<StreamTraits<Element, 64, StreamShape{2, 2, 1, 3, 1}>>(problem, tuning);
  else if (d <= 96) run_stream<StreamTraits<Element, 96, StreamShape{1, 3, 1, 3, 1}>>(problem, tuning);
  else if (d <= 128) run_stream<StreamTraits<Element, 128, StreamShape{1, 2, 2, 2, 1}>>(problem, tuning);
  else run_stream<StreamTraits<Element, 256, StreamShape{1, 1, 1, 2, 1}>>(problem, tuning);
}

void stream_other(const Problem& problem, const StreamTuning& tuning) {
  if (problem.sizes.bfloat) by_head_dim<Bfloat>(problem, tuning);
  else by_head_dim<Half>(problem, tuning);
}

}  // namespace stof::bench
