// SPDX-License-Identifier: Apache-2.0
// Texts of a decoder that go on: keys and values of what was seen are kept, so that each token is computed once.
#pragma once
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "src/runtime/batch.h"
#include "src/runtime/bucket.h"
#include "src/runtime/generation_lanes.h"
#include "src/runtime/program.h"

namespace stof {

// Of the program's result for the last token of each text: all of it, or where the highest score stands. That is asked
// for in vain where the host would have to look for it: then it gets all.
enum class Asked : std::uint8_t { scores, likeliest };

// Of one model, with keys that lie alike: for any number of rows, for steps of at most its most_rows(), and for prompts
// of a size.
struct GenerationPrograms {
  using OfPrompts = std::function<const Program&(const Bucket&)>;
  explicit GenerationPrograms(const Program& all) : GenerationPrograms(all, all) {}
  GenerationPrograms(const Program& any, const Program& few, OfPrompts of = {})
      : any_rows(any), few_rows(few), of_prompts(std::move(of)) {}
  const Program &any_rows, &few_rows;
  OfPrompts of_prompts;  // none: any_rows. Asked where a device works beside the host
};

class Generation {
 public:
  // For so many texts of at most `capacity` tokens each, those to come included, in the memory of a lane of the
  // programs' device. Throws unsupported where keys cannot be kept or are others for each length, device where there is
  // no memory for them.
  Generation(const GenerationPrograms& programs, GenerationLane& lane, std::int64_t texts, std::int64_t capacity,
             Asked asked = Asked::scores);

  // f32 [texts, columns], or i32 [texts] of the likeliest, -1 for a text of which a score is NaN.
  Tensor begin(const RowBatch& prompts);
  // One token more for each text that is left. By that a text may come to be one that has other angles
  // (TextLimits::long_after): its keys so far are then made anew.
  Tensor go_on(std::span<const std::int32_t> tokens, const TextLimits& limits);
  // The text is done, and the last one takes its number.
  void drop(std::int64_t text);

  std::int64_t texts() const { return std::ssize(lengths_); }

 private:
  // Numbers of a call, behind each other as the device gets them.
  struct Inputs {
    std::vector<std::int32_t> tokens, positions, segments, places;  // of each row
    // Of a prompt: the rows whose result is wanted; and where texts begin and how long they are, if the device is to
    // read that. Of a step: how many keys each text has, likewise.
    std::vector<std::int32_t> kept = {}, starts = {}, lengths = {};
  };
  // What is done for a call, as often as it is asked for.
  using Work = std::function<const void*(HeldPlans*)>;
  Work prepared(const Program& program, const Inputs& inputs, Frame frame, CachedKeys cached);
  const Program& step_program() const;
  Inputs inputs_of(const RowBatch& prompts) const;
  const Program& prompt_program(const Bucket& bucket) const;
  const AttentionPlans& prompt_plans(const Program& program, const Bucket& bucket);
  bool rounds_up(const Program& program, std::int64_t rows) const;
  void round_up(Inputs& inputs, const RowBatch& prompts, const Bucket& bucket) const;
  const void* run(const Work& work);
  const void* done(const StepKind& kind, const Work& work);
  Tensor fetched(const void* result);
  void record(RecordedStep& step, const Work& work, const void* result);
  void reserve(const Program& program, std::int64_t rows, std::int64_t kept);
  void reserve_for_long(const TextLimits& limits);
  void turn_anew(std::int64_t text, std::int64_t first_row);
  void plan_for(std::int64_t keys);

  const Program &program_, &few_rows_;
  GenerationPrograms::OfPrompts of_prompts_;
  std::int64_t slots_, capacity_;
  std::int64_t planned_texts_;     // slots, rounded up so that plans serve other calls
  std::int64_t planned_keys_ = 0;  // of steps
  GenerationLane& lane_;
  DeviceSide& side_;
  bool picks_;                         // the likeliest tokens come to the host, and no scores
  std::vector<std::int32_t> lengths_;  // tokens of each text that is left
  std::vector<std::vector<std::int32_t>> tokens_;
  bool has_gone_on_ = false;
};

}  // namespace stof
