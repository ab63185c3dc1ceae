// SPDX-License-Identifier: Apache-2.0
// Which program runs a call: the plan that was tuned for calls of its size on this device, else the one that is best by
// prediction. Programs with equal plans are one. They share the weights, but for matrices that they want in another
// order (src/backend/operations.h: MatmulOperations::pack_matrix).
#pragma once
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/fusion/plan_cache.h"
#include "src/fusion/plan_model.h"
#include "src/runtime/bucket.h"
#include "src/runtime/program.h"

namespace stof {

struct ProgramsOptions {
  ProgramOptions program;
  std::optional<Mask> mask = {};  // that the model's own is restricted by
  PlanCacheOptions plans = {};    // no folder: predictions alone
  // Where a program beside the default one finds no memory: frees what nobody needs at this time; whether there was
  // some. It does not come back here.
  std::function<bool()> make_room = {};
};

// What was decided for calls of one size.
struct ChosenPlan {
  Scheme scheme;
  std::map<std::string, std::string> settings;
  std::string origin;  // as FusionPlan has it
  bool kept = false;   // read from the plans of an earlier search
};

class Programs {
 public:
  // Of a simplified graph. Makes the program of the default scheme: what no device takes is refused here.
  Programs(const Graph& simplified, const ProgramsOptions& options);

  // Thread-safe. A call of a size that was not seen before may make a program, for which calls of known sizes do not
  // wait. Where the chosen plan cannot be made, that is said, and calls of the size run by the next best from then on.
  const Program& of(const Bucket& bucket) const;
  ChosenPlan plan_of(const Bucket& bucket) const;  // that of() makes, where that is possible
  const Program& by_default() const { return *default_; }
  // The same, of logits, for prompts whose keys lie as the default program's: by the plan that was tuned for them, else
  // by prediction. Thread-safe.
  const Program& of_prompts(const Bucket& bucket) const;
  // For calls of at most its most_rows(), whose keys lie as the default program's: by_default() itself where the device
  // has nothing for few rows, or no memory left. Thread-safe; made at the first call.
  const Program& of_few_rows() const;
  std::int64_t plans_made() const;  // for attention, by all programs
  // Of the one that needs most, whose result is wanted of all rows, or of `kept` of them.
  std::int64_t arena_bytes(std::int64_t rows, std::int64_t kept = 0) const;
  std::size_t count() const;

 private:
  CostContext call_of(const Bucket& bucket) const;
  template <class Work>
  auto alone(const Work& work) const;
  using ByBucket = std::map<Bucket, const Program*>;
  const Program* known(const ByBucket& programs, const Bucket& bucket) const;
  template <class Make>
  const Program& of(ByBucket& programs, const Bucket& bucket, const Make& make) const;
  // What plans are kept for.
  struct Question {
    Graph graph;  // simplified
    bool keeps_keys = false;
    std::string weights = {};     // fingerprint; read when there is a plan to compare it with
    bool told_of_others = false;  // plans that are nearly what is asked for: said once
  };
  // These under making_.
  std::optional<ChosenPlan> kept_plan(Question& asked, const CostContext& call) const;
  std::optional<ChosenPlan> kept_plan_of_prompts(const CostContext& call) const;
  ChosenPlan predicted_plan(const Blocks& blocks, const CostContext& call) const;
  const Program* made_if_possible(const ChosenPlan& kept) const;
  const Program& made_for(const Bucket& bucket) const;
  const Program& made_for_prompts(const Bucket& bucket) const;
  void leave_scores(ChosenPlan& plan, const Bucket& bucket) const;
  const Program& made_or_default(const ChosenPlan& plan, std::int64_t rows) const;
  const Program& made(const ChosenPlan& plan) const;
  std::unique_ptr<Program> program_of(const Graph& fused, const ProgramOptions& options) const;
  void make_few_rows() const;
  void check_settings(const Graph& fused, const ChosenPlan& plan, const CostContext& call) const;
  void say(const std::string& message) const;

  ProgramsOptions options_;
  mutable Question asked_;                            // under making_
  mutable std::optional<Question> asked_of_prompts_;  // under making_; null: not yet
  Graph restricted_;
  std::optional<Blocks> blocks_;
  mutable std::optional<Blocks> prompt_blocks_;  // under making_
  Scheme default_scheme_;
  mutable std::mutex making_;                // one at a time: the second may want what the first makes
  mutable std::vector<std::string> to_say_;  // under making_: said without it
  mutable std::mutex mutex_;                 // guards the next three; taken last, and for a look-up alone
  mutable ByBucket by_bucket_, prompts_by_bucket_;
  mutable std::map<std::string, std::unique_ptr<Program>> by_plan_;
  const Program* default_ = nullptr;
  mutable bool asked_for_few_rows_ = false;    // under mutex_
  mutable std::unique_ptr<Program> few_rows_;  // null: the default; written under mutex_ too
  std::future<void> waking_;                   // MatmulOperations::wake
};

}  // namespace stof
