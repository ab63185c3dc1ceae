// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/generation.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "src/base/error.h"
#include "src/base/memory.h"
#include "src/base/narrow.h"
#include "src/base/out_of_memory.h"
#include "src/runtime/bucket.h"
#include "src/runtime/pooling.h"

namespace stof {

Generation::Generation(const GenerationPrograms& programs, GenerationLane& lane, std::int64_t texts,
                       std::int64_t capacity, Asked asked) try
    : program_(programs.any_rows),
      few_rows_(programs.few_rows),
      of_prompts_(programs.of_prompts),
      slots_(texts),
      capacity_(capacity),
      planned_texts_(bucket_of({.rows = texts, .texts = texts, .longest = 1}, capacity).texts),
      lane_(lane),
      side_(lane.side()),
      picks_(asked == Asked::likeliest && side_.records() &&
             program_.options().device.backend->rows.highest != nullptr) {
  const Device& device = program_.options().device;
  const std::int64_t bytes = program_.cache_bytes(slots_, capacity_);
  if (const std::string mask = program_.mask_by_length(); !mask.empty())
    fail(ErrorKind::unsupported,
         "the mask {} is another one for each length, and keys that are kept are of the lengths before; accepted for "
         "going on: masks that do not depend on length",
         mask);
  if (device.backend->rows.copy == nullptr || !program_.keeps_keys())
    fail(ErrorKind::unsupported, "keys cannot be kept for this model on {}; accepted: a decoder", device.caps.name);
  narrow<std::int32_t>(slots_ * capacity_, "tokens whose keys are kept");
  if (device.backend->open_stream == nullptr)
    check_memory(fmt::format("keys and values of {} texts of {} tokens", slots_, capacity_),
                 static_cast<double>(bytes));
  lane_.reserve_keys(bytes);
  if (picks_) lane_.reserve_picked(slots_);
} catch (const Error& error) {
  if (!is_out_of_memory(error)) throw;
  fail(ErrorKind::device,
       "{}; keys and values of {} texts of {} tokens need {} bytes: run fewer texts together, or fewer tokens",
       error.what(), texts, capacity, programs.any_rows.cache_bytes(texts, capacity));
}

// Steps of all texts find in it the memory that they will have.
void Generation::reserve(const Program& program, std::int64_t rows, std::int64_t kept) {
  const std::int64_t bytes =
      std::max({program.arena_bytes(rows, kept), program_.arena_bytes(slots_), few_rows_.arena_bytes(slots_)});
  if (bytes <= lane_.activation_bytes()) return;
  if (program_.options().device.backend->open_stream == nullptr)
    check_memory(fmt::format("a call of {} tokens", rows), static_cast<double>(bytes));
  try {
    lane_.reserve_activations(bytes);
  } catch (const Error& error) {
    if (!is_out_of_memory(error)) throw;
    fail(ErrorKind::device,
         "{}; activations of {} rows, rounded up, of {} texts need {} bytes: run fewer texts together, or shorter ones",
         error.what(), rows, texts(), bytes);
  }
}

// From the first step on, which is of all texts, all memory is where it was: later ones have no more rows and numbers.
Generation::Work Generation::prepared(const Program& program, const Inputs& inputs, Frame frame, CachedKeys cached) {
  const std::size_t rows = inputs.tokens.size();
  std::vector<std::int32_t> numbers;
  for (const auto* part : {&inputs.tokens, &inputs.positions, &inputs.segments, &inputs.places, &inputs.kept,
                           &inputs.starts, &inputs.lengths})
    numbers.insert(numbers.end(), part->begin(), part->end());
  const std::span<const std::int32_t> there = side_.put(numbers), of_texts = there.subspan(4 * rows);
  const auto kept = of_texts.first(inputs.kept.size()), lengths = of_texts.last(inputs.lengths.size());
  frame.rows = static_cast<std::int64_t>(rows);
  frame.row_capacity = row_capacity(frame.rows);
  frame.indices = {there.subspan(0, rows), there.subspan(rows, rows), there.subspan(2 * rows, rows)};
  frame.queue = side_.queue();
  cached.memory = lane_.keys();
  cached.slots = slots_;
  cached.capacity = capacity_;
  cached.places = there.subspan(3 * rows, rows);
  frame.kept = kept;
  if (cached.continues) cached.device_lengths = lengths;
  else if (!lengths.empty())
    frame.texts = AttentionRows{.items = std::ssize(lengths),
                                .starts = of_texts.subspan(kept.size(), inputs.starts.size()).data(),
                                .lengths = lengths.data()};
  reserve(program, frame.rows, std::ssize(frame.kept));
  frame.arena = lane_.activations();
  const RowShape scores{kept.empty() ? texts() : std::ssize(kept), program_.result_columns(), program_.dtype(),
                        frame.queue};
  // Nothing of this call: what is recorded may be done in later ones.
  return [&program, &lane = lane_, picks = picks_, frame, cached, there, scores](HeldPlans* plans) {
    lane.side().bring(there);
    Frame now = frame;
    now.cached = &cached;
    now.plans = plans;
    const void* const result = program.run(now);
    return picks ? lane.pick(scores, result) : result;
  };
}

Generation::Inputs Generation::inputs_of(const RowBatch& prompts) const {
  Inputs inputs{.tokens = prompts.tokens, .positions = prompts.positions, .segments = prompts.segments, .places = {}};
  for (std::int64_t text = 0; text < prompts.texts; ++text)
    for (std::int32_t i = 0; i < lengths_[static_cast<std::size_t>(text)]; ++i)
      inputs.places.push_back(static_cast<std::int32_t>(text * capacity_) + i);
  return inputs;
}

const Program& Generation::prompt_program(const Bucket& bucket) const {
  return side_.records() && of_prompts_ ? of_prompts_(bucket) : program_;
}

const AttentionPlans& Generation::prompt_plans(const Program& program, const Bucket& bucket) {
  return lane_.with_room([&]() -> const AttentionPlans& {
    return side_.records() ? program.plans(bucket.texts, bucket.longest) : program.plans(1, program.options().longest);
  });
}

// Whether a prompt is recorded for others of its bucket. Keys of rows that it is rounded up by need a place.
bool Generation::rounds_up(const Program& program, std::int64_t rows) const {
  return side_.records() && program.runs_sooner_than_launched(rows) && lengths_.front() < capacity_;
}

// Rows past the prompts' own are token 0 at position 0 and of no text. Their keys go where the first text's next token
// puts its own before anything reads them. Texts past the call's own have no rows.
void Generation::round_up(Inputs& inputs, const RowBatch& prompts, const Bucket& bucket) const {
  for (auto* numbers : {&inputs.tokens, &inputs.positions, &inputs.segments})
    numbers->resize(static_cast<std::size_t>(bucket.rows), 0);
  inputs.places.resize(static_cast<std::size_t>(bucket.rows), lengths_.front());
  inputs.lengths = lengths_;
  for (std::int64_t text = 0; text < prompts.texts; ++text) {
    inputs.starts.push_back(static_cast<std::int32_t>(prompts.first_row(text)));
    inputs.kept.push_back(inputs.starts.back() + lengths_[static_cast<std::size_t>(text)] - 1);
  }
  inputs.starts.resize(static_cast<std::size_t>(bucket.texts), 0);
  inputs.lengths.resize(static_cast<std::size_t>(bucket.texts), 0);
}

Tensor Generation::begin(const RowBatch& prompts) {
  STOF_CHECK(prompts.texts == slots_ && prompts.longest <= capacity_ && !prompts.padded);
  lengths_ = prompts.lengths;
  tokens_.clear();
  for (std::int64_t text = 0; text < prompts.texts; ++text) {
    const auto first = prompts.tokens.begin() + prompts.first_row(text);
    tokens_.emplace_back(first, first + lengths_[static_cast<std::size_t>(text)]);
  }
  const Bucket bucket =
      bucket_of({.rows = prompts.rows, .texts = slots_, .longest = prompts.longest}, program_.options().longest);
  const Program& program = prompt_program(bucket);
  const AttentionPlans& plans = prompt_plans(program, bucket);
  Inputs inputs = inputs_of(prompts);
  if (rounds_up(program, bucket.rows)) {
    round_up(inputs, prompts, bucket);
    return fetched(done({&program, slots_, capacity_, bucket.rows, bucket.longest, slots_, picks_},
                        prepared(program, inputs, {.attention = &plans}, {})));
  }
  inputs.kept = rows_wanted(prompts, Pooling::last);
  return fetched(run(prepared(program, inputs, {.batch = &prompts, .attention = &plans}, {})));
}

// What a text's tokens leave in its slot, by other angles: as for a prompt, of which no result is wanted.
void Generation::turn_anew(std::int64_t text, std::int64_t first_row) {
  const std::vector<std::int32_t>& tokens = tokens_[static_cast<std::size_t>(text)];
  const auto rows = static_cast<std::int32_t>(tokens.size());
  const RowBatch batch{.rows = rows,
                       .texts = 1,
                       .longest = rows,
                       .tokens = {},
                       .positions = {},
                       .segments = {},
                       .offsets = {0, rows},
                       .lengths = {rows}};
  Inputs inputs{.tokens = tokens, .positions = {}, .segments = {}, .places = {}, .kept = {rows - 1}};
  for (std::int32_t i = 0; i < rows; ++i) {
    inputs.positions.push_back(static_cast<std::int32_t>(first_row) + i);
    inputs.places.push_back(static_cast<std::int32_t>(text * capacity_) + i);
  }
  inputs.segments.assign(tokens.size(), 0);
  const Bucket bucket = bucket_of({.rows = rows, .texts = 1, .longest = rows}, program_.options().longest);
  const Program& program = prompt_program(bucket);
  run(prepared(program, inputs, {.batch = &batch, .attention = &prompt_plans(program, bucket)}, {}));
  side_.wait();  // its numbers have been read
}

// What a text that becomes long will want is there from the first step on, or is refused then, not when it has said
// much; and recordings, which end where memory grows, stay.
void Generation::reserve_for_long(const TextLimits& limits) {
  const auto becomes_long = [&](std::int32_t length) { return length <= limits.long_after; };
  if (limits.long_after == 0 || limits.long_after >= capacity_ || std::ranges::none_of(lengths_, becomes_long)) return;
  const Bucket bucket =
      bucket_of({.rows = limits.long_after, .texts = 1, .longest = limits.long_after}, program_.options().longest);
  reserve(prompt_program(bucket), limits.long_after, 1);
}

Tensor Generation::go_on(std::span<const std::int32_t> tokens, const TextLimits& limits) {
  STOF_CHECK(std::ssize(tokens) == texts());
  if (!std::exchange(has_gone_on_, true)) reserve_for_long(limits);
  for (std::int64_t text = 0; text < texts(); ++text)
    if (limits.long_after > 0 && lengths_[static_cast<std::size_t>(text)] == limits.long_after)
      turn_anew(text, limits.first_table_row(limits.long_after + 1));
  Inputs inputs{.tokens = {tokens.begin(), tokens.end()}, .positions = {}, .segments = {}, .places = {}};
  inputs.segments.assign(tokens.size(), 0);
  for (std::int64_t text = 0; text < texts(); ++text) {
    std::int32_t& length = lengths_[static_cast<std::size_t>(text)];
    STOF_CHECK(length < capacity_);
    inputs.positions.push_back(static_cast<std::int32_t>(limits.first_table_row(length + 1)) + length);
    inputs.places.push_back(static_cast<std::int32_t>(text * capacity_) + length);
    ++length;
    tokens_[static_cast<std::size_t>(text)].push_back(tokens[static_cast<std::size_t>(text)]);
  }
  plan_for(*std::max_element(lengths_.begin(), lengths_.end()));
  CachedKeys cached{.continues = true, .keys = std::min(capacity_, planned_keys_), .lengths = lengths_};
  if (side_.records()) cached.lengths = {}, inputs.lengths = lengths_;  // the device reads them
  const Program& program = step_program();
  const StepPlans& plans =
      lane_.with_room([&]() -> const StepPlans& { return program.step_plans(planned_texts_, planned_keys_); });
  const Work work = prepared(
      program, inputs, {.attention = &plans.attention, .joined = side_.records() ? &plans.joined : nullptr}, cached);
  if (!side_.records()) return fetched(run(work));
  return fetched(done({&program, slots_, capacity_, 0, planned_keys_, texts(), picks_}, work));
}

const Program& Generation::step_program() const { return texts() <= few_rows_.most_rows() ? few_rows_ : program_; }

// Plans are for as many keys as there are, rounded up, and not for all that may come: some take time and memory. To a
// power of two, though the texts may have less room: capacities are many, and plans stay as long as the program.
void Generation::plan_for(std::int64_t keys) {
  if (keys <= planned_keys_) return;
  constexpr std::uint64_t kLeast = 64;
  planned_keys_ = static_cast<std::int64_t>(std::bit_ceil(std::max(kLeast, static_cast<std::uint64_t>(keys))));
}

Tensor Generation::fetched(const void* result) {
  if (picks_) {
    side_.wait();
    Tensor tokens(DType::i32, {texts()});
    std::copy_n(static_cast<const std::int32_t*>(result), texts(), tokens.as<std::int32_t>());
    return tokens;
  }
  return side_.fetch(result, program_.dtype(), {texts(), program_.result_columns()});
}

// Kernels and what they write besides may be wanted for the first time. Done once more it writes the same.
const void* Generation::run(const Work& work) {
  return lane_.with_room([&] { return work(nullptr); });
}

// The first one of a kind loads and chooses what a recording must not; the second one is recorded.
const void* Generation::done(const StepKind& kind, const Work& work) {
  bool is_new = false;
  RecordedStep& step = lane_.step(kind, is_new);
  if (step.work) {
    step.work->launch();
    return step.result;
  }
  const void* const result = run(work);
  if (!is_new && !step.refused) record(step, work, result);
  return result;
}

void Generation::record(RecordedStep& step, const Work& work, const void* result) {
  step.refused = true;
  try {
    const auto plans = std::make_shared<HeldPlans>();
    step.work = side_.record([work, plans] { work(plans.get()); });
    step.plans = *plans;
    step.result = result;
  } catch (const Error& error) {  // the result is there without it
    if (error.kind() == ErrorKind::internal) throw;
  }
}

void Generation::drop(std::int64_t text) {
  const std::int64_t last = texts() - 1;
  STOF_CHECK(text >= 0 && text <= last);
  if (text != last) {
    std::byte* const keys = lane_.keys();
    program_.for_each_cached_layer(slots_, capacity_, [&](std::int64_t begin, std::int64_t row_bytes) {
      side_.copy(keys + begin + text * capacity_ * row_bytes, keys + begin + last * capacity_ * row_bytes,
                 lengths_.back() * row_bytes);
    });
    lengths_[static_cast<std::size_t>(text)] = lengths_.back();
    tokens_[static_cast<std::size_t>(text)] = std::move(tokens_.back());
  }
  lengths_.pop_back();
  tokens_.pop_back();
}

}  // namespace stof
