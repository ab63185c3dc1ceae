// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda/stream_variants.cuh"

namespace stof::bench {

void stream_pair_128(const Problem& problem, const StreamTuning& tuning) {
  run_stream<StreamTraits<Half, 128, StreamShape{1, 2, 2, 2, 1}>>(problem, tuning);
}
void stream_triple_128(const Problem& problem, const StreamTuning& tuning) {
  run_stream<StreamTraits<Half, 128, StreamShape{1, 3, 1, 3, 1}>>(problem, tuning);
}
void stream_pair_short_128(const Problem& problem, const StreamTuning& tuning) {
  run_stream<StreamTraits<Half, 128, StreamShape{1, 2, 1, 4, 1}>>(problem, tuning);
}
void stream_singles_128(const Problem& problem, const StreamTuning& tuning) {
  run_stream<StreamTraits<Half, 128, StreamShape{2, 1, 1, 2, 1}>>(problem, tuning);
}
void stream_two_groups_128(const Problem& problem, const StreamTuning& tuning) {
  run_stream<StreamTraits<Half, 128, StreamShape{1, 1, 1, 4, 1, 2}>>(problem, tuning);
}

}  // namespace stof::bench
