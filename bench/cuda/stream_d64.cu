// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda/stream_variants.cuh"

namespace stof::bench {

void stream_pairs(const Problem& problem, const StreamTuning& tuning) {
  run_stream<StreamTraits<Half, 64, StreamShape{2, 2, 1, 4, 1}>>(problem, tuning);
}
void stream_singles(const Problem& problem, const StreamTuning& tuning) {
  run_stream<StreamTraits<Half, 64, StreamShape{4, 1, 1, 2, 1}>>(problem, tuning);
}
void stream_small(const Problem& problem, const StreamTuning& tuning) {
  run_stream<StreamTraits<Half, 64, StreamShape{1, 1, 1, 2, 3}>>(problem, tuning);
}
void stream_deep(const Problem& problem, const StreamTuning& tuning) {
  run_stream<StreamTraits<Half, 64, StreamShape{1, 1, 1, 5, 2}>>(problem, tuning);
}
void stream_four_groups(const Problem& problem, const StreamTuning& tuning) {
  run_stream<StreamTraits<Half, 64, StreamShape{1, 1, 1, 8, 1, 4}>>(problem, tuning);
}
void stream_two_groups(const Problem& problem, const StreamTuning& tuning) {
  run_stream<StreamTraits<Half, 64, StreamShape{2, 1, 1, 4, 1, 2}>>(problem, tuning);
}
void stream_quads(const Problem& problem, const StreamTuning& tuning) {
  run_stream<StreamTraits<Half, 64, StreamShape{1, 4, 1, 6, 1}>>(problem, tuning);
}
void stream_triples(const Problem& problem, const StreamTuning& tuning) {
  run_stream<StreamTraits<Half, 64, StreamShape{1, 3, 2, 4, 1}>>(problem, tuning);
}

}  // namespace stof::bench
