// SPDX-License-Identifier: Apache-2.0
// Texts of a decoder that go on: keys and values of what was seen are kept, so that each token is computed once.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "src/runtime/batch.h"
#include "src/runtime/device_side.h"
#include "src/runtime/program.h"

namespace stof {

class Generation {
 public:
  // For so many texts of at most `capacity` tokens each, those to come included. Throws unsupported where keys cannot
  // be kept or are others for each length, device where there is no memory for them.
  // few_rows: as GenerateCall has it.
  Generation(const Program& program, const Program& few_rows, std::int64_t texts, std::int64_t capacity);

  // What is asked for of each text is the program's result for its last token, f32 [texts, columns].
  Tensor begin(const RowBatch& prompts);
  // One token more for each text that is left; first_position as in ModelConfig.
  Tensor go_on(std::span<const std::int32_t> tokens, std::int64_t first_position);
  // The text is done, and the last one takes its number.
  void drop(std::int64_t text);

  std::int64_t texts() const { return std::ssize(lengths_); }

 private:
  // Numbers of a call, behind each other as the device gets them: of each row, and then of each text.
  struct Inputs {
    std::vector<std::int32_t> tokens, positions, segments, places, of_texts;
  };
  // What is done for a call, as often as it is asked for.
  using Work = std::function<const void*(HeldPlans*)>;
  Work prepared(const Program& program, const Inputs& inputs, Frame frame, CachedKeys cached);
  const Program& step_program() const;
  const void* done(const Work& work);
  Tensor fetched(const void* result);
  void record(const Work& work, const void* result);
  void reserve(std::int64_t rows, std::int64_t kept);
  void plan_for(std::int64_t keys);

  // Steps of so many texts, where the device reads their lengths.
  struct Recorded {
    std::unique_ptr<RecordedWork> work;
    const void* result = nullptr;
    HeldPlans plans;
    bool refused = false;
  };

  const Program &program_, &few_rows_;
  std::int64_t slots_, capacity_;
  std::int64_t planned_texts_;     // slots, rounded up so that plans serve other calls
  std::int64_t planned_keys_ = 0;  // of steps
  DeviceSide side_;
  std::shared_ptr<void> keys_;
  GrowingMemory activations_;
  std::vector<std::int32_t> lengths_;  // tokens of each text that is left
  std::map<std::int64_t, Recorded> recorded_;
};

}  // namespace stof
