// SPDX-License-Identifier: Apache-2.0
// The development harness: every variant of the CUDA attention kernels on the rows of the target table, each checked
// against an fp32 reference before it is timed.
// usage: attention [--filter TEXT] [--check] [--json FILE] [--commit ID] [--no-dependent-launch] [--set NAME]
#include <cstdio>
#include <cstring>

#include "bench/cuda/band_variants.cuh"
#include "bench/cuda/gather_variants.cuh"
#include "bench/cuda/mma_variants.cuh"
#include "bench/cuda/stream_variants.cuh"

namespace stof::bench {
namespace {

void run_checks() {
  const DenseMask random = random_elements(200, 333, 0.05, 1), ragged = causal(200), wide = window(517, 40);
  for (const int d : {32, 40, 64, 96, 128, 200, 256})
    for (const bool bfloat : {false, true}) {
      stream_other(make_problem({2, 4, 2, d, bfloat, Order::row_major}, random), {3, 2, 8});
      stream_other(make_problem({2, 2, 1, d, bfloat, Order::head_major}, ragged, {150, 33}, {200, 77}), {0, 4, 64});
    }
  const Problem problem = make_problem({3, 4, 4, 64}, wide);
  stream_pairs(problem, {2, 3, 8}), stream_singles(problem, {2, 3, 8}), stream_small(problem, {2, 3, 8, false});
  stream_quads(problem, {2, 3, 8}), stream_triples(problem, {2, 3, 8});
  stream_four_groups(problem, {2, 3, 8}), stream_two_groups(problem, {0, 3, 8}), stream_deep(problem, {0, 3, 8, false});
  const Problem sparse = make_problem({3, 4, 4, 64}, random);
  stream_pairs(sparse, {2, 3, 8}), stream_singles(sparse, {2, 3, 8}), stream_small(sparse, {2, 3, 8, false});
  stream_quads(sparse, {2, 3, 8}), stream_triples(sparse, {2, 3, 8});
  stream_four_groups(sparse, {0, 3, 8}), stream_two_groups(sparse, {2, 3, 8});
  const DenseMask lower = causal(1000);
  const Problem lengths = make_problem({3, 4, 4, 64}, lower, {1000, 300, 65}, {1000, 555, 65});
  stream_four_groups(lengths, {0, 3, 8}), stream_two_groups(lengths, {5, 3, 8}), stream_quads(lengths, {5, 3, 8});
  stream_pairs(lengths, {0, 3, 8}), stream_triples(lengths, {3, 3, 8}), stream_singles(lengths, {0, 3, 8});
  band_checks();
  gather_checks();
  mma_checks();
}

// Whole: most row blocks are long.
std::vector<int> splits_of(int length, bool whole) {
  if (length <= 512) return {0, 8};
  if (length <= 1024) return {0, 4, 6, 8, 12};
  return whole ? std::vector{0, 24, 32, 50} : std::vector{6, 8, 12, 16};
}

void run_batch(int batch, int length) {
  const Sizes sizes{batch, 12, 12, 64};
  const int reach = length >= 4096 ? 32 : 16;
  const bool large = batch * length >= 16384;
  const DenseMask masks[] = {causal(length), longformer(length, reach, reach), bigbird(length, 64, 3, 1),
                             documents(length, 1)};
  for (const DenseMask& mask : masks) {
    const Problem p = make_problem(sizes, mask);
    const bool whole = &mask == &masks[0] || &mask == &masks[3];
    if (&mask == &masks[3] && length < 1024) continue;
    const int key_step = &mask == &masks[1] ? 8 : 64;
    if (length == 128) band_whole(p);
    if (&mask == &masks[1]) gather_rows(p, reach);
    if (large) {
      if (whole)
        stream_quads(p, {0, 24, key_step}), stream_pairs(p, {0, 24, key_step}), stream_singles(p, {0, 8, key_step});
      else
        for (const int split : {8, 16, 24})
          stream_pairs(p, {split, 1, key_step}), stream_singles(p, {split, 1, key_step});
      continue;
    }
    for (const int split : splits_of(length, whole)) {
      const StreamTuning queued{split, 12, key_step}, dealt{split, 12, key_step, false};
      stream_four_groups(p, queued), stream_two_groups(p, queued);
      if (length <= 1024) stream_deep(p, dealt);
      if (length <= 1024) stream_small(p, dealt);
      if (batch == 1 && length <= 1024) continue;
      stream_singles(p, queued), stream_pairs(p, queued), stream_quads(p, queued);
      if (batch > 1)
        stream_four_groups(p, dealt), stream_two_groups(p, dealt), stream_singles(p, dealt), stream_pairs(p, dealt),
            stream_quads(p, dealt);
    }
  }
  band_rows(sizes, length, reach);
}

void run_long() {
  const Sizes sizes{1, 32, 32, 128};
  const auto run = [&](const DenseMask& mask, int split, int key_step) {
    const Problem p = make_problem(sizes, mask);
    stream_pair_128(p, {split, 1, key_step}), stream_triple_128(p, {split, 1, key_step});
    stream_pair_short_128(p, {split, 1, key_step}), stream_singles_128(p, {split, 1, key_step});
    stream_two_groups_128(p, {split, 1, key_step});
  };
  run(causal(16384), 0, 64);
  run(window(16384, 512), 0, 64);
  const DenseMask strided = dilated(16384, 512, 2), half = window(8192, 512);
  Problem residues = make_problem(sizes, strided);
  residues.residues = 2;
  stream_pair_128(residues, {0, 1, 64, true, &half}), stream_triple_128(residues, {0, 1, 64, true, &half});
  run(longformer(16384, 512, 512), 32, 64);
  run(bigbird(16384, 64, 3, 1), 16, 64);
  run(documents(16384, 1), 0, 64);
}

// The kernel for sm_80 where the others are measured.
void run_mma() {
  for (const auto& [batch, length] : {std::pair(16, 4096), std::pair(16, 1024), std::pair(1, 4096)}) {
    const int reach = length >= 4096 ? 32 : 16, split = batch == 1 ? 8 : 24;
    const Sizes sizes{batch, 12, 12, 64};
    const DenseMask masks[] = {causal(length), window(length, reach), longformer(length, reach, reach),
                               bigbird(length, 64, 3, 1)};
    for (const DenseMask& mask : masks) {
      const Problem p = make_problem(sizes, mask);
      mma_64(p, split, batch == 1 || &mask == &masks[0] ? 12 : 1);
      if (&mask == &masks[0] && batch == 16) mma_64(p, 0, 12);
    }
  }
  const DenseMask masks[] = {causal(16384), window(16384, 512), longformer(16384, 512, 512), bigbird(16384, 64, 3, 1)};
  for (const DenseMask& mask : masks) mma_128(make_problem({1, 32, 32, 128}, mask), &mask == &masks[0] ? 0 : 32, 1);
  const DenseMask lower = causal(1024), narrow = window(4096, 32);
  mma_fallbacks(make_problem({1, 12, 12, 64}, lower)), mma_fallbacks(make_problem({1, 12, 12, 64}, narrow));
}

void run(const std::string& set) {
  if (set == "check") return run_checks();
  if (set == "mma check") return mma_checks();
  if (set == "all" || set == "mma") run_mma();
  if (set == "all" || set == "16,4096") run_batch(16, 4096);
  if (set == "all" || set == "16,1024") run_batch(16, 1024);
  if (set == "all" || set == "1,4096") run_batch(1, 4096);
  if (set == "all" || set == "1,1024") run_batch(1, 1024);
  if (set == "all" || set == "8,512") run_batch(8, 512);
  if (set == "all" || set == "1,128") run_batch(1, 128);
  if (set == "all" || set == "long") run_long();
}

}  // namespace
}  // namespace stof::bench

int main(int argc, char** argv) {
  using namespace stof::bench;
  std::string set = "all";
  for (int i = 1; i < argc; ++i) {
    const auto value = [&] { return std::string(i + 1 < argc ? argv[++i] : ""); };
    if (!std::strcmp(argv[i], "--filter")) settings().filter = value();
    else if (!std::strcmp(argv[i], "--json")) settings().json = value();
    else if (!std::strcmp(argv[i], "--commit")) settings().commit = value();
    else if (!std::strcmp(argv[i], "--set")) set = value();
    else if (!std::strcmp(argv[i], "--check")) settings().time = false;
    else if (!std::strcmp(argv[i], "--no-dependent-launch")) settings().dependent_launch = false;
  }
  run(set);
  write_results();
  return 0;
}
