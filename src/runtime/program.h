// SPDX-License-Identifier: Apache-2.0
// A graph made ready for a device: weights packed, memory laid out, attention planned for the lengths that come.
#pragma once
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/backend/token_attention.h"
#include "src/graph/graph.h"
#include "src/runtime/batch.h"
#include "src/runtime/kept_plans.h"
#include "src/runtime/memory_plan.h"
#include "src/runtime/weight_store.h"
#include "stof/attention.h"

namespace stof {

// One plan for each mask and head shape of the program: layers share them.
using AttentionPlans = std::vector<std::shared_ptr<const Attention>>;

// How one token of each text attends, by site: as planned, or, where there is a shape, in one launch with what stands
// between two products (src/backend/token_attention.h). What is always joined has no plan: null.
using JoinedSteps = std::vector<std::optional<TokenAttentionShape>>;
struct StepPlans {
  AttentionPlans attention;
  JoinedSteps joined;
};

// What Attention has planned for a call, and the memory that its kernels write besides results.
using HeldPlans = std::vector<std::shared_ptr<const void>>;

// Keys and values of texts that go on: rows of each layer behind each other, [slots][capacity], a text a slot, with k
// of all heads and then v in each.
struct CachedKeys {
  std::byte* memory = nullptr;
  std::int64_t slots = 0, capacity = 0;
  std::span<const std::int32_t> places = {};  // [rows]: slot * capacity + position, where the device reads them
  bool continues = false;                     // one row a text, slot by slot, which sees the keys that are there
  std::int64_t keys = 0;                      // that a row sees at most: no more than were planned for
  // [rows]: keys of each, its own row's included; where the host reads them, or the device.
  std::span<const std::int32_t> lengths = {}, device_lengths = {};
};

// What the steps of one call read and write.
struct Frame {
  std::int64_t rows = 0;
  std::int64_t row_capacity = 0;  // rows that every value has room for
  std::byte* arena = nullptr;
  std::array<std::span<const std::int32_t>, 3> indices = {};  // [rows] each, by TokenIndex
  const RowBatch* batch = nullptr;                            // where the texts lie, as the host knows it
  std::optional<AttentionRows> texts = {};                    // the same, as the device reads it; before `batch`
  const AttentionPlans* attention = nullptr;
  const JoinedSteps* joined = nullptr;  // of a step: where the device reads all its numbers
  WorkQueue queue = {};
  bool outgrows_cache = false;  // what the call writes: then steps say what is worth keeping, and take turns in order
  HeldPlans* plans = nullptr;   // where the call is recorded: takes what it reads, and nothing is planned meanwhile
  const CachedKeys* cached = nullptr;  // where keys are kept
  // The rows, where the device reads their numbers, that the result is wanted of, in its order; empty: all of them.
  std::span<const std::int32_t> kept = {};
  // Of the steps behind the last attention, where rows are dropped: set by run().
  std::byte* tail = nullptr;
  std::int64_t tail_capacity = 0;
};

struct ProgramOptions {
  Device device;
  DType dtype = DType::f32;
  std::int64_t longest = 0;                            // tokens of the longest text
  std::map<std::string, MatmulSetting> settings = {};  // by the matmul's work (src/fusion/work.h); the others choose
  std::shared_ptr<WeightStore> weights = {};           // shared with other programs of the model; null: its own
  bool runs_prompts = true;  // false: another program of the model has made sure that every text is taken
};

class Program {
 public:
  // Throws unsupported for a dtype or an attention that the device does not take.
  Program(const Graph& graph, const ProgramOptions& options);

  // How matmuls of this work are run from now on; nothing: as the backend chooses. Not while calls run.
  void use(const std::string& work, const std::optional<MatmulSetting>& setting);

  // Of a call whose result is wanted of all rows (0), or of `kept` of them: either may be more.
  std::int64_t arena_bytes(std::int64_t rows, std::int64_t kept = 0) const;
  // Whether k and v of every attention lie beside each other.
  bool keeps_keys() const;
  // Of CachedKeys.
  std::int64_t cache_bytes(std::int64_t slots, std::int64_t capacity) const;
  // Calls body(where the layer begins, bytes of a row) for each.
  void for_each_cached_layer(std::int64_t slots, std::int64_t capacity,
                             const std::function<void(std::int64_t, std::int64_t)>& body) const;
  // Runs every step; the arena has arena_bytes(frame.rows, kept) of the device's memory, 64-byte aligned. Returns the
  // result inside the arena, [rows, columns] of the program's dtype, or [kept, columns].
  const void* run(const Frame& frame) const;
  // The steps [first, last) alone, of as many as the graph has nodes: for their times. What they read has been made by
  // those before them. Run again without those, a step may read what it wrote itself.
  void run_steps(const Frame& frame, std::size_t first, std::size_t last) const;
  std::size_t steps() const { return steps_.size(); }
  // Whether a device beside the host does a call of so many rows in less time than the host takes to ask for its steps:
  // then rows may be rounded up, so that one recording serves many calls.
  bool runs_sooner_than_launched(std::int64_t rows) const;
  // Of a call: fewer than any number where matmuls are for few rows (LinearSpec::few_rows).
  std::int64_t most_rows() const { return most_rows_; }
  // The same on the host, of a device that does its work at once.
  const void* run(const RowBatch& batch, std::byte* arena, std::span<const std::int32_t> kept = {}) const;

  // For so many texts of at most `longest` tokens, where the masks are the same for shorter texts. Made when they are
  // first asked for, and kept. Thread-safe: those that are there are had while others are made.
  const AttentionPlans& plans(std::int64_t texts, std::int64_t longest) const;
  // For one token each of so many texts, whose cached keys are so many at most, the token's included; kept, too.
  const StepPlans& step_plans(std::int64_t texts, std::int64_t keys) const;
  // Attention plans made since this program was: one for each mask, shape and pair of sizes, and more only as Attention
  // says. Waits for none that is being made.
  std::int64_t plans_made() const;
  // Some mask depends on length: every text is planned for by itself.
  bool plans_by_length() const { return plans_by_length_; }
  std::string mask_by_length() const;  // that one, or nothing

  // Where a value lies in the arena of a call with room for so many rows, in bytes.
  std::int64_t place_of(ValueId value, std::int64_t row_capacity) const;
  ValueId result() const { return result_; }
  std::int64_t result_columns() const { return result_columns_; }
  DType dtype() const { return options_.dtype; }
  const ProgramOptions& options() const { return options_; }

 private:
  using Step = std::function<void(const Frame&)>;
  friend class ProgramBuilder;         // program_steps.cpp
  void add_steps(const Graph& graph);  // one for each node, with all that it needs
  void keep_rows(const Frame& frame) const;

  // What a plan is made for, besides the sizes of a call.
  struct AttentionSite {
    Mask mask;
    std::int64_t heads, kv_heads, head_dim;
    bool capped, biased;
    bool any_length;       // false: planned for the longest text, whatever a call brings
    bool all_join = true;  // AttentionStep::may_join of all its steps
    bool serves(const op::AttendPacked& op, std::int64_t columns) const;  // of each head
  };

  template <class Plans>
  AttentionPlans for_longest_text(KeptPlans<Plans>& kept, std::int64_t texts) const;
  std::shared_ptr<const Attention> step_apart(const AttentionSite& site, const AttentionShape& shape) const;
  AttentionShape shape_of(const AttentionSite& site, std::int64_t texts, std::int64_t positions) const;

  struct Tunable {
    std::vector<PackedLinear> packed;
    std::shared_ptr<std::optional<MatmulSetting>> setting = std::make_shared<std::optional<MatmulSetting>>();
  };

  ProgramOptions options_;
  ArenaPlan arena_;
  SplitArena split_;
  struct LiveRow {
    std::int64_t columns, moments_bytes;
  };
  std::vector<LiveRow> live_rows_;          // of split_.live
  std::vector<std::int64_t> cache_widths_;  // of k and v of each layer whose keys can be kept
  ValueId result_ = 0;
  std::int64_t result_columns_ = 0;
  std::vector<Step> steps_;
  std::vector<AttentionSite> sites_;
  bool plans_by_length_ = false;
  std::map<std::string, Tunable> tunables_;
  std::int64_t attention_steps_ = 0;
  std::int64_t weights_of_rows_ = 0;  // elements of the matrices by which every row is multiplied
  std::int64_t most_rows_ = std::numeric_limits<std::int64_t>::max();
  mutable KeptPlans<AttentionPlans> plans_;  // by texts and longest
  mutable KeptPlans<StepPlans> step_plans_;  // by texts and keys
};

}  // namespace stof
