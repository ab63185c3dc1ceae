// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/timed_call.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "src/backend/contract.h"
#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/base/out_of_memory.h"
#include "src/base/stopwatch.h"

namespace stof {
namespace {

constexpr int kCallsOfRecording = 8;    // at most
constexpr double kLongEnoughUs = 2000;  // of a recording: what launching it costs is then below 0.2 %
constexpr std::int64_t kFlushRows = 32768, kFlushColumns = 1024;  // 128 MB of f32: above twice an H200's L2
constexpr int kLeastRuns = 5, kMostRuns = 60;

std::atomic<int>& taken() {
  static std::atomic<int> count = 0;
  return count;
}

RowBatch texts_of(const EvenCall& call, std::int64_t vocabulary) {
  RowBatch batch{.rows = call.texts * call.length,
                 .texts = call.texts,
                 .longest = call.length,
                 .tokens = {},
                 .positions = {},
                 .segments = std::vector<std::int32_t>(static_cast<std::size_t>(call.texts * call.length)),
                 .offsets = {0},
                 .lengths = std::vector(static_cast<std::size_t>(call.texts), static_cast<std::int32_t>(call.length))};
  for (const std::int32_t length : batch.lengths) batch.offsets.push_back(batch.offsets.back() + length);
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    batch.tokens.push_back(static_cast<std::int32_t>(splitmix64(static_cast<std::uint64_t>(row)) %
                                                     static_cast<std::uint64_t>(vocabulary)));
    batch.positions.push_back(static_cast<std::int32_t>(row % call.length));
  }
  return batch;
}

int calls_of_recording(double us_of_one) {
  return std::clamp(static_cast<int>(kLongEnoughUs / std::max(us_of_one, 1.0)), 1, kCallsOfRecording);
}

}  // namespace

int times_taken() { return taken(); }

CallTime call_time_of(std::vector<double> us) {
  STOF_CHECK(!us.empty());
  std::sort(us.begin(), us.end());
  const std::size_t quarter = us.size() / 4;
  const double median = us[us.size() / 2];
  return {.us = median,
          .spread = median > 0 ? (us[us.size() - 1 - quarter] - us[quarter]) / median : 0,
          .runs = static_cast<int>(us.size())};
}

TimedCall::TimedCall(const Program& program, const EvenCall& call, std::int64_t vocabulary, GrowingMemory* shared)
    : program_(program), batch_(texts_of(call, vocabulary)), arena_(shared == nullptr ? &own_arena_ : shared) {
  const ProgramOptions& options = program.options();
  const Bucket& bucket = call.bucket;
  if (options.device.backend->open_stream != nullptr) stream_ = options.device.backend->open_stream(options.device);
  try {
    arena_->reserve(program.arena_bytes(bucket.rows),
                    [this](std::size_t bytes) { return memory(static_cast<std::int64_t>(bytes)); });
  } catch (const Error& error) {
    if (!is_out_of_memory(error)) throw;
    fail(ErrorKind::device, "{}; {} rows of activations need {} bytes: tune for fewer texts together", error.what(),
         bucket.rows, program.arena_bytes(bucket.rows));
  }
  frame_ = {.rows = batch_.rows,
            .row_capacity = stof::row_capacity(bucket.rows),
            .arena = arena_->data(),
            .indices = {batch_.tokens, batch_.positions, batch_.segments},
            .batch = &batch_,
            .attention = &program.plans(stream_ ? bucket.texts : 1, stream_ ? bucket.longest : options.longest)};
  if (stream_) bring_inputs(bucket);
}

// As DeviceLane does: rows and texts past the call's own are token 0 at position 0, and texts without rows.
void TimedCall::bring_inputs(const Bucket& bucket) {
  const auto bring = [&](std::vector<std::int32_t> values, std::int64_t count) {
    values.resize(static_cast<std::size_t>(count));
    const std::span bytes = std::as_bytes(std::span(values));
    inputs_.push_back(memory(std::ssize(bytes)));
    stream_->copy_in(inputs_.back().get(), bytes.data(), bytes.size());
    stream_->synchronize();
    return std::span(static_cast<const std::int32_t*>(inputs_.back().get()), values.size());
  };
  const Device& device = program_.options().device;
  const std::size_t workspace_bytes = device.backend->matmul.workspace_bytes;
  workspace_ = memory(static_cast<std::int64_t>(workspace_bytes));
  frame_.indices = {bring(batch_.tokens, bucket.rows), bring(batch_.positions, bucket.rows),
                    bring(batch_.segments, bucket.rows)};
  if (!program_.plans_by_length()) {
    frame_.rows = bucket.rows;
    std::vector<std::int32_t> starts(batch_.offsets.begin(), batch_.offsets.end() - 1);
    frame_.texts = AttentionRows{.items = bucket.texts,
                                 .starts = bring(std::move(starts), bucket.texts).data(),
                                 .lengths = bring(batch_.lengths, bucket.texts).data()};
  }
  frame_.queue = {.device = &device,
                  .stream = stream_->handle(),
                  .workspace = workspace_.get(),
                  .workspace_bytes = workspace_bytes};
}

TimedCall::~TimedCall() {
  try {
    if (stream_) stream_->synchronize();
  } catch (const Error&) {  // the call that put the work there has said it
  }
}

std::shared_ptr<void> TimedCall::memory(std::int64_t bytes) {
  if (stream_) return stream_->device_memory(static_cast<std::size_t>(bytes));
  const auto values = std::make_shared<const Tensor>(DType::boolean, Shape{bytes});
  std::memset(values->data(), 0, values->bytes());
  return {values, values->data()};
}

const Frame& TimedCall::frame() {
  frame_.arena = arena_->data();
  return frame_;
}

void TimedCall::run() {
  program_.run(frame());
  if (stream_) stream_->synchronize();
}

CallTime TimedCall::time(Caches caches, double seconds) {
  run();
  return time_of([this] { program_.run(frame()); }, caches, seconds);
}

CallTime TimedCall::time_step(std::size_t step, double seconds) {
  run();
  return time_of([this, step] { program_.run_steps(frame(), step, step + 1); }, Caches::warm, seconds);
}

CallTime TimedCall::time_of(const Work& call, Caches caches, double seconds) {
  return summed_up(stream_ ? device_times(call, caches, seconds) : host_times(call, seconds));
}

CallTime TimedCall::summed_up(std::vector<double> us) const {
  STOF_CHECK(!us.empty());
  ++taken();
  // What else the host does only ever adds to a time.
  const double least = *std::min_element(us.begin(), us.end());
  CallTime time = call_time_of(std::move(us));
  if (!stream_) time.us = least;
  return time;
}

OneTime TimedCall::timer() {
  run();
  if (!stream_)
    return [this] {
      const Stopwatch watch;
      program_.run(frame());
      return 1e6 * watch.seconds();
    };
  const auto recorded = [this](int count) {
    return stream_->record([this, count] {
      for (int i = 0; i < count; ++i) program_.run(frame());
    });
  };
  const int count = calls_of_recording(stream_->time(*recorded(1), 1));
  const std::shared_ptr<const RecordedWork> work = recorded(count);
  // The recording has the arena's address: it stays as long as this, wherever the next one is.
  return [this, work, count, arena = arena_->held()] { return stream_->time(*work, 1) / count; };
}

std::vector<std::vector<double>> TimedCall::times_up_to_each_step(int rounds) {
  run();
  ++taken();
  std::vector<std::unique_ptr<RecordedWork>> recorded;
  for (std::size_t end = 0; stream_ && end <= program_.steps(); ++end)
    recorded.push_back(stream_->record([&] { program_.run_steps(frame(), 0, end); }));
  const auto up_to = [&](std::size_t end) {
    if (stream_) return stream_->time(*recorded[end], 1);
    const Stopwatch watch;
    program_.run_steps(frame(), 0, end);
    return 1e6 * watch.seconds();
  };
  for (std::size_t end = 0; end <= program_.steps(); ++end) up_to(end);
  std::vector<std::vector<double>> times;
  for (int round = 0; round < rounds; ++round) {
    times.emplace_back();
    for (std::size_t end = 0; end <= program_.steps(); ++end) times.back().push_back(up_to(end));
  }
  return times;
}

std::vector<double> TimedCall::host_times(const Work& call, double seconds) {
  std::vector<double> times;
  const Stopwatch all;
  while (std::ssize(times) < kLeastRuns || (std::ssize(times) < kMostRuns && all.seconds() < seconds)) {
    const Stopwatch watch;
    call();
    times.push_back(1e6 * watch.seconds());
  }
  return times;
}

// A recording of several calls, so that launching it costs each of them little; where caches are to be cold, what fills
// them is taken off again.
std::vector<double> TimedCall::device_times(const Work& call, Caches caches, double seconds) {
  int count = 1;
  const auto recorded = [&](bool calls) {
    return stream_->record([&, calls] {
      for (int i = 0; i < count; ++i) {
        if (caches == Caches::cold) flush();
        if (calls) call();
      }
    });
  };
  if (caches == Caches::cold && !flushed_) {
    flushed_ = memory(kFlushRows * kFlushColumns * 4);
    flush();
    stream_->synchronize();
  }
  count = calls_of_recording(stream_->time(*recorded(true), 1));
  const auto work = recorded(true);
  const auto without = caches == Caches::cold ? recorded(false) : nullptr;
  stream_->time(*work, 1);
  std::vector<double> times;
  const Stopwatch all;
  while (std::ssize(times) < kLeastRuns || (std::ssize(times) < kMostRuns && all.seconds() < seconds)) {
    const double us = stream_->time(*work, 1) - (without ? stream_->time(*without, 1) : 0);
    times.push_back(std::max(us, 0.0) / count);  // what fills the caches may have taken longer without the call
  }
  return times;
}

void TimedCall::flush() const {
  program_.options().device.backend->rows.add({kFlushRows, kFlushColumns, DType::f32, frame_.queue}, flushed_.get(), {},
                                              Activation::none, flushed_.get());
}

void TimedCall::fill(ValueId value, std::span<const std::byte> piece, std::int64_t offset, std::int64_t bytes) {
  STOF_CHECK(!piece.empty() && bytes >= 0);
  std::byte* const to = frame().arena + program_.place_of(value, frame_.row_capacity) + offset;
  const auto all = static_cast<std::size_t>(bytes);
  std::size_t there = std::min(piece.size(), all);
  if (stream_) stream_->copy_in(to, piece.data(), there);
  else std::memcpy(to, piece.data(), there);
  // What is there are whole pieces, up to the last copy: each doubles them.
  for (std::size_t more = 0; there < all; there += more) {
    more = std::min(there, all - there);
    if (stream_) stream_->copy(to + there, to, more);
    else std::memcpy(to + there, to, more);
  }
  if (stream_) stream_->synchronize();
}

std::vector<std::byte> TimedCall::read(ValueId value, std::int64_t offset, std::int64_t bytes) {
  std::vector<std::byte> values(static_cast<std::size_t>(bytes));
  const std::byte* const from = frame().arena + program_.place_of(value, frame_.row_capacity) + offset;
  if (stream_) {
    stream_->copy_out(values.data(), from, values.size());
    stream_->synchronize();
  } else {
    std::memcpy(values.data(), from, values.size());
  }
  return values;
}

}  // namespace stof
