// SPDX-License-Identifier: Apache-2.0
// The development harness: every variant of the CUDA attention kernels on the rows of the target table, each checked
// against an fp32 reference before it is timed.
// usage: attention [--filter TEXT] [--check] [--json FILE] [--commit ID] [--no-dependent-launch] [--set NAME]
#include <cstdio>
#include <cstring>

#include "bench/cuda/band_variants.cuh"
#include "bench/cuda/stream_variants.cuh"

namespace stof::bench {
namespace {

void run_checks() {
  const DenseMask random = random_elements(200, 333, 0.05, 1), ragged = causal(200), wide = window(517, 40);
  for (const int d : {32, 40, 64, 96, 128, 200, 256})
    for (const bool bfloat : {false, true}) {
      stream_other(make_problem({2, 4, 2, d, bfloat, Order::row_major}, random), {3, 2, 8});
      stream_other(make_problem({2, 2, 1, d, bfloat, Order::head_major}, ragged, {200, 77}, {150, 33}), {0, 4, 64});
    }
  const Problem problem = make_problem({3, 4, 4, 64}, wide);
  stream_pairs(problem, {2, 3, 8}), stream_singles(problem, {2, 3, 8}), stream_small(problem, {2, 3, 8, false});
  stream_quads(problem, {2, 3, 8}), stream_triples(problem, {2, 3, 8});
  const Problem sparse = make_problem({3, 4, 4, 64}, random);
  stream_pairs(sparse, {2, 3, 8}), stream_singles(sparse, {2, 3, 8}), stream_small(sparse, {2, 3, 8, false});
  stream_quads(sparse, {2, 3, 8}), stream_triples(sparse, {2, 3, 8});
  band_checks();
}

void run_batch(int batch, int length) {
  const Sizes sizes{batch, 12, 12, 64};
  const int reach = length >= 4096 ? 32 : 16;
  const bool large = batch * length >= 16384;
  {
    const DenseMask mask = causal(length);
    const Problem p = make_problem(sizes, mask);
    if (large) stream_quads(p, {0, 24, 64}), stream_triples(p, {0, 24, 64}), stream_pairs(p, {0, 24, 64});
    else stream_pairs(p, {8, 12, 64}), stream_singles(p, {8, 12, 64}), stream_small(p, {8, 12, 64}), stream_small(p, {4, 12, 64, false});
    if (!large) stream_pairs(p, {0, 12, 64}), stream_small(p, {0, 12, 64, false});
  }
  {
    const DenseMask mask = longformer(length, reach, reach);
    const Problem p = make_problem(sizes, mask);
    for (const int split : large ? std::vector<int>{8, 12} : std::vector<int>{2, 4, 6}) {
      stream_pairs(p, {split, 1, 8}), stream_singles(p, {split, 1, 8}), stream_small(p, {split, 1, 8});
      if (!large) stream_small(p, {split, 12, 8, false});
    }
  }
  {
    const DenseMask mask = bigbird(length, 64, 3, 1);
    const Problem p = make_problem(sizes, mask);
    for (const int split : large ? std::vector<int>{12, 16} : std::vector<int>{2, 4, 6}) {
      stream_pairs(p, {split, 1, 64}), stream_singles(p, {split, 1, 64}), stream_small(p, {split, 1, 64});
      if (large) stream_quads(p, {split, 1, 64});
      if (!large) stream_small(p, {split, 12, 64, false});
    }
  }
  if (length >= 1024) {
    const DenseMask mask = documents(length, 1);
    const Problem p = make_problem(sizes, mask);
    stream_pairs(p, {0, large ? 8 : 12, 64}), stream_quads(p, {0, large ? 8 : 12, 64});
    if (!large) stream_small(p, {4, 12, 64, false}), stream_small(p, {8, 12, 64, false}), stream_pairs(p, {8, 12, 64});
  }
  band_rows(sizes, length, reach);
}

void run_long() {
  const Sizes sizes{1, 32, 32, 128};
  const auto run = [&](const DenseMask& mask, int split, int key_step) {
    const Problem p = make_problem(sizes, mask);
    stream_pair_128(p, {split, 1, key_step}), stream_triple_128(p, {split, 1, key_step});
  };
  run(causal(16384), 0, 64);
  run(window(16384, 512), 0, 64);
  run(dilated(16384, 512, 2), 0, 64);
  run(longformer(16384, 512, 512), 32, 64);
  run(bigbird(16384, 64, 3, 1), 16, 64);
  run(documents(16384, 1), 0, 64);
}

void run(const std::string& set) {
  if (set == "check") return run_checks();
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
