// SPDX-License-Identifier: Apache-2.0
// The questions of `stof bench model`: sentences with a checkpoint, a whole encoder on long input, and models tuned for
// one size of call.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "cli/bench_results.h"
#include "cli/progress.h"
#include "cli/roofline.h"
#include "stof/session.h"

namespace stof::cli {

struct ModelBench {
  std::string model, input;  // folder of a checkpoint; file of sentences
  std::string encoder;       // folder of a checkpoint; empty: random weights of BERT-base's size
  std::string hidden_out;    // .npy that the last encoder row's hidden states are written into
  std::vector<DType> dtypes;
  std::vector<std::int64_t> batches;
  std::vector<std::array<std::int64_t, 2>> shapes;  // texts, tokens of each
  std::vector<std::string> masks;                   // of the encoder; empty: dense, and longformer on the longest
  std::string device;
  double seconds = 0;                  // that a row is timed for
  bool split = false;                  // of an encoder on the host: where a row's time goes, too
  bool beside_grid = false;            // in place of the grid's models those that no target is for
  std::vector<std::string> ablations;  // of the grid
  std::string only;                    // of the grid: the rows whose id has this in it
  double budget_seconds = 0;           // of tuning a row of the grid; 0: no end
};

std::vector<std::string> sentence_rows(const ModelBench& bench);  // ids, in order
void bench_sentences(const ModelBench& bench, BenchResults& results, Progress& progress);

// The first sentence of a new process alone.
std::vector<std::string> start_rows(const ModelBench& bench);
void bench_start(const ModelBench& bench, BenchResults& results, Progress& progress);

// Refuses a checkpoint without layers, or of another family than the definition of bench_encoder is of.
void check_encoder(const ModelBench& bench);
std::vector<std::string> encoder_rows(const ModelBench& bench);
void bench_encoder(const ModelBench& bench, const Roofline& roofline, BenchResults& results, Progress& progress);

std::vector<std::string> grid_rows(const ModelBench& bench);
void bench_grid(const ModelBench& bench, BenchResults& results, Progress& progress);

}  // namespace stof::cli
