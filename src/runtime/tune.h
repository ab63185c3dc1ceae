// SPDX-License-Identifier: Apache-2.0
// Finds the plan for one size of call of a model by measuring on the device, and keeps it.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "src/fusion/plan.h"
#include "src/fusion/search.h"
#include "src/model/model.h"
#include "src/runtime/bucket.h"
#include "src/runtime/row_errors.h"
#include "stof/device.h"

namespace stof {

// What is left in, to see what the rest brings. Without `attention` every pair is computed, as a kernel that skips
// nothing does: times of another mask, `all`, and results too. Without `fusion` every operator runs by itself.
struct Ablation {
  bool attention = true, fusion = true;
  bool is_whole() const { return attention && fusion; }
};

struct TuneOptions {
  Device device;
  DType dtype = DType::f32;
  std::optional<Mask> mask = {};
  std::int64_t texts = 1, longest = 128;
  std::int64_t global_tokens = 0;  // see SessionOptions
  bool prompts = false;            // of Session::generate: of decoders, on a GPU; keys lie as other calls read them
  Ablation ablation = {};
  std::optional<std::string> scheme = {};  // forced: its settings alone are searched
  std::uint64_t seed = 1;
  bool again = false;                 // measure what the log has, too, and keep that in its place
  double budget_seconds = 0;          // 0: until nothing is left to try
  double seconds_a_time = 0.01;       // of measuring one setting
  double confirming_seconds = 0.2;    // of timing a whole model
  bool against_f32 = false;           // compare what wins with the unfused model in f32, too
  std::filesystem::path folder = {};  // of plans and times; empty: nothing is kept
  std::string model_name = {}, commit = {};
  std::function<void(const std::string&)> explain = {};
  std::function<void(int done, int total)> progress = {};
  std::function<void(std::string_view)> log = {};
};

struct TuneResult {
  FusionPlan plan;
  SearchResult search;
  Bucket bucket;
  int measured = 0, remembered = 0;  // answers from the device, and from what was measured before
  int compared = 0;                  // of those remembered: with the unfused operators again, as weights are others
  int wrong = 0;                     // settings that computed something else
  double seconds = 0;
  double parts_seconds = 0, race_seconds = 0,
         refining_seconds = 0;  // of that: nodes, whole models, changes of settings
  bool kept = false;
  std::optional<RowErrors> f32_error = {};  // of every row; where that was asked for
  double f32_seconds = 0;                   // that the comparison took, besides `seconds`
  std::int64_t arena_bytes = 0;             // for activations of the call
};

// Throws what tune() would of the size of the call; takes no memory and reads no weight. Of a model that is described
// too, before its weights are made.
void check_call(const Model& model, const TuneOptions& options);

// Every way of running a matmul that tune() would begin with, in the order in which it asks, so that kernels can be
// compiled before. Needs no device but its description.
void for_each_setting(const Model& model, const TuneOptions& options,
                      const std::function<void(const LinearSpec&, std::int64_t rows, const MatmulSetting&)>& see);

// Throws what a session of the model would throw; invalid_argument for texts that the model does not take, or a scheme.
TuneResult tune(const Model& model, const TuneOptions& options);

}  // namespace stof
