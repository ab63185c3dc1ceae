// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/generation.h"

#include "src/base/error.h"
#include "src/base/memory.h"
#include "src/base/narrow.h"
#include "src/runtime/pooling.h"

namespace stof {

Generation::Generation(const Program& program, std::int64_t texts, std::int64_t capacity)
    : program_(program), slots_(texts), capacity_(capacity), side_(program.options().device) {
  const Device& device = program.options().device;
  const std::int64_t bytes = program.cache_bytes(slots_, capacity_);
  if (device.backend->rows.copy == nullptr || bytes == 0)
    fail(ErrorKind::unsupported, "keys cannot be kept for this model on {}; accepted: a decoder, on the CPU",
         device.caps.name);
  narrow<std::int32_t>(slots_ * capacity_, "tokens whose keys are kept");
  if (device.backend->open_stream == nullptr)
    check_memory(fmt::format("keys and values of {} texts of {} tokens", slots_, capacity_),
                 static_cast<double>(bytes));
  keys_ = side_.memory(bytes);
}

void Generation::reserve(std::int64_t rows, std::int64_t kept) {
  const std::int64_t bytes = program_.arena_bytes(rows, kept);
  if (program_.options().device.backend->open_stream == nullptr)
    check_memory(fmt::format("a call of {} tokens", rows), static_cast<double>(bytes));
  activations_.reserve(bytes, [this](std::size_t size) { return side_.memory(static_cast<std::int64_t>(size)); });
}

Tensor Generation::run(const Inputs& inputs, Frame frame, CachedKeys cached) {
  const std::size_t rows = inputs.tokens.size();
  std::vector<std::int32_t> numbers;
  for (const auto* part : {&inputs.tokens, &inputs.positions, &inputs.segments, &inputs.places, &inputs.kept})
    numbers.insert(numbers.end(), part->begin(), part->end());
  const std::span<const std::int32_t> there = side_.bring(numbers);
  frame.rows = static_cast<std::int64_t>(rows);
  reserve(frame.rows, std::ssize(inputs.kept));
  frame.row_capacity = row_capacity(frame.rows);
  frame.arena = activations_.data();
  frame.indices = {there.subspan(0, rows), there.subspan(rows, rows), there.subspan(2 * rows, rows)};
  frame.queue = side_.queue();
  cached.memory = static_cast<std::byte*>(keys_.get());
  cached.slots = slots_;
  cached.capacity = capacity_;
  cached.places = there.subspan(3 * rows, rows);
  frame.cached = &cached;
  frame.kept = there.subspan(4 * rows);
  return side_.fetch(program_.run(frame), program_.dtype(), {texts(), program_.result_columns()});
}

Tensor Generation::begin(const RowBatch& prompts) {
  STOF_CHECK(prompts.texts == slots_ && prompts.longest <= capacity_ && !prompts.padded);
  lengths_ = prompts.lengths;
  Inputs inputs{.tokens = prompts.tokens,
                .positions = prompts.positions,
                .segments = prompts.segments,
                .places = {},
                .kept = rows_wanted(prompts, Pooling::last)};
  for (std::int64_t text = 0; text < prompts.texts; ++text)
    for (std::int32_t i = 0; i < lengths_[static_cast<std::size_t>(text)]; ++i)
      inputs.places.push_back(static_cast<std::int32_t>(text * capacity_) + i);
  const std::int64_t longest = program_.options().longest;
  return run(inputs, {.batch = &prompts, .attention = &program_.plans(1, longest)}, {});
}

Tensor Generation::go_on(std::span<const std::int32_t> tokens, std::int64_t first_position) {
  STOF_CHECK(std::ssize(tokens) == texts());
  Inputs inputs{.tokens = {tokens.begin(), tokens.end()}, .positions = {}, .segments = {}, .places = {}, .kept = {}};
  inputs.segments.assign(tokens.size(), 0);
  for (std::int64_t text = 0; text < texts(); ++text) {
    std::int32_t& length = lengths_[static_cast<std::size_t>(text)];
    STOF_CHECK(length < capacity_);
    inputs.positions.push_back(static_cast<std::int32_t>(first_position) + length);
    inputs.places.push_back(static_cast<std::int32_t>(text * capacity_) + length);
    ++length;
  }
  return run(inputs, {.attention = &program_.step_plans(slots_, capacity_)}, {.continues = true, .lengths = lengths_});
}

void Generation::drop(std::int64_t text) {
  const std::int64_t last = texts() - 1;
  STOF_CHECK(text >= 0 && text <= last);
  if (text != last) {
    auto* const keys = static_cast<std::byte*>(keys_.get());
    program_.for_each_cached_layer(slots_, capacity_, [&](std::int64_t begin, std::int64_t row_bytes) {
      side_.copy(keys + begin + text * capacity_ * row_bytes, keys + begin + last * capacity_ * row_bytes,
                 lengths_.back() * row_bytes);
    });
    lengths_[static_cast<std::size_t>(text)] = lengths_.back();
  }
  lengths_.pop_back();
}

}  // namespace stof
