// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/device_calls.h"

#include <algorithm>
#include <numeric>

#include "src/backend/contract.h"
#include "src/base/error.h"
#include "src/base/out_of_memory.h"
#include "src/runtime/pooling.h"
#include "src/tensor/convert.h"

namespace stof {

// Buckets of texts that are hardly longer than a token may have as many of them as rows: then nothing is saved.
std::int64_t rows_kept(const Bucket& bucket, Pooling pooling, const Backend& backend) {
  return wants_one_row(pooling) && backend.rows.copy != nullptr && bucket.texts < bucket.rows ? bucket.texts : 0;
}

DeviceLane::Inputs::Inputs(std::int32_t* begin, const Bucket& bucket) {
  const auto take = [&](std::int64_t count) {
    const std::span<std::int32_t> taken(begin, static_cast<std::size_t>(count));
    begin += count;
    return taken;
  };
  tokens = take(bucket.rows);
  positions = take(bucket.rows);
  segments = take(bucket.rows);
  starts = take(bucket.texts);
  lengths = take(bucket.texts);
  kept = take(bucket.texts);
  kept_starts = take(bucket.texts);
  kept_lengths = take(bucket.texts);
}

DeviceLane::DeviceLane(const Program& program, ProgramChoice choice)
    : program_(program),
      choice_(std::move(choice)),
      stream_(program.options().device.backend->open_stream(program.options().device)),
      workspace_(stream_->device_memory(program.options().device.backend->matmul.workspace_bytes)) {}

DeviceLane::~DeviceLane() {
  try {
    stream_->synchronize();
  } catch (const Error&) {  // the call that put the work there has said it
  }
}

std::int64_t DeviceLane::pooled_columns() const {
  return choice_.head != nullptr ? choice_.head->columns() : program_.result_columns();
}

// Of one vector a text, up to where other memory may begin.
std::int64_t DeviceLane::vector_bytes(const Bucket& bucket) const {
  constexpr std::int64_t kAlignment = 256;
  const std::int64_t bytes = bucket.texts * pooled_columns() * static_cast<std::int64_t>(sizeof(float));
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

void DeviceLane::reserve(const Bucket& bucket, Pooling pooling) {
  const auto on_device = [this](std::size_t bytes) { return stream_->device_memory(bytes); };
  const auto on_host = [this](std::size_t bytes) { return stream_->host_memory(bytes); };
  const std::int64_t input_bytes = Inputs::count(bucket) * static_cast<std::int64_t>(sizeof(std::int32_t));
  const std::int64_t pooled_bytes = vector_bytes(bucket) + (choice_.head ? choice_.head->arena_bytes(bucket.texts) : 0);
  const std::int64_t activation_bytes =
      choice_.arena_bytes(bucket.rows, rows_kept(bucket, pooling, *program_.options().device.backend));
  // Addresses of memory that moves are in every recording.
  if (std::max(
          {input_bytes - inputs_.bytes(), pooled_bytes - pooled_.bytes(), activation_bytes - activations_.bytes()}) > 0)
    recorded_.clear();
  host_inputs_.reserve(input_bytes, on_host);
  inputs_.reserve(input_bytes, on_device);
  pooled_.reserve(pooled_bytes, on_device);
  try {
    activations_.reserve(activation_bytes, on_device);
  } catch (const Error& error) {
    if (!is_out_of_memory(error)) throw;
    fail(ErrorKind::device, "{}; {} rows of activations need {} bytes: run fewer texts together", error.what(),
         bucket.rows, activation_bytes);
  }
}

// Rows and texts past the call's own are token 0 at position 0, and texts without rows; of these row 0 is kept.
void DeviceLane::fill_inputs(const RowBatch& batch, const Bucket& bucket, Pooling pooling) const {
  const Inputs inputs(reinterpret_cast<std::int32_t*>(host_inputs_.data()), bucket);
  const auto fill = [](std::span<std::int32_t> to, const std::vector<std::int32_t>& from) {
    std::fill(std::copy(from.begin(), from.end(), to.begin()), to.end(), 0);
  };
  fill(inputs.tokens, batch.tokens);
  fill(inputs.positions, batch.positions);
  fill(inputs.segments, batch.segments);
  fill(inputs.lengths, batch.lengths);
  fill(inputs.starts, {});
  for (std::int64_t text = 0; text < batch.texts; ++text)
    inputs.starts[static_cast<std::size_t>(text)] = static_cast<std::int32_t>(batch.first_row(text));
  std::iota(inputs.kept_starts.begin(), inputs.kept_starts.end(), 0);
  for (std::size_t text = 0; text < inputs.kept.size(); ++text) {
    const std::int32_t behind = pooling == Pooling::last ? std::max(inputs.lengths[text] - 1, 0) : 0;
    inputs.kept[text] = inputs.starts[text] + behind;
    inputs.kept_lengths[text] = std::min(inputs.lengths[text], 1);
  }
}

std::shared_ptr<const RowBatch> DeviceLane::known_texts(const RowBatch& batch) const {
  if (!program_.plans_by_length()) return nullptr;
  RowBatch known = batch;
  known.tokens = known.positions = known.segments = {};
  return std::make_shared<const RowBatch>(std::move(known));
}

Frame DeviceLane::frame_of(const Bucket& bucket, Pooling pooling, const RowBatch* texts) const {
  const Inputs there(reinterpret_cast<std::int32_t*>(inputs_.data()), bucket);
  const ProgramOptions& options = program_.options();
  std::optional<AttentionRows> rows;
  if (texts == nullptr) rows = {.items = bucket.texts, .starts = there.starts.data(), .lengths = there.lengths.data()};
  return {.rows = texts == nullptr ? bucket.rows : texts->rows,
          .row_capacity = row_capacity(bucket.rows),
          .arena = activations_.data(),
          .indices = {there.tokens, there.positions, there.segments},
          .batch = texts,
          .texts = rows,
          .attention = &choice_.of(bucket).plans(bucket.texts, bucket.longest),
          .queue = {.device = &options.device,
                    .stream = stream_->handle(),
                    .workspace = workspace_.get(),
                    .workspace_bytes = options.device.backend->matmul.workspace_bytes},
          .kept = there.kept.first(static_cast<std::size_t>(rows_kept(bucket, pooling, *options.device.backend)))};
}

const void* DeviceLane::enqueue(const Bucket& bucket, const ResultForm& form, const RowBatch* texts,
                                HeldPlans* plans) const {
  const Inputs there(reinterpret_cast<std::int32_t*>(inputs_.data()), bucket);
  Frame frame = frame_of(bucket, form.pooling, texts);
  frame.plans = plans;
  stream_->copy_in(inputs_.data(), host_inputs_.data(),
                   static_cast<std::size_t>(Inputs::count(bucket)) * sizeof(std::int32_t));
  const void* const hidden = choice_.of(bucket).run(frame);
  return form.pooling == Pooling::none ? hidden : pool(bucket, form, frame, hidden);
}

// The vectors of texts, and behind these the arena of the head.
const void* DeviceLane::pool(const Bucket& bucket, const ResultForm& form, const Frame& frame,
                             const void* hidden) const {
  const Inputs there(reinterpret_cast<std::int32_t*>(inputs_.data()), bucket);
  const auto pool = program_.options().device.backend->rows.pool;
  const DenseHead* const head = choice_.head;
  const bool keeps = !frame.kept.empty();
  auto* const vectors = reinterpret_cast<float*>(pooled_.data());
  std::byte* const arena = pooled_.data() + vector_bytes(bucket);
  pool({.rows = {keeps ? std::ssize(frame.kept) : frame.rows, program_.result_columns(), program_.dtype(), frame.queue},
        .hidden = hidden,
        .starts = keeps ? there.kept_starts : there.starts,
        .lengths = keeps ? there.kept_lengths : there.lengths,
        .pooling = form.pooling,
        .normalize = form.normalize && head == nullptr,
        .out = head == nullptr ? vectors : head->pooled(arena, bucket.texts)});
  if (head == nullptr) return vectors;
  const float* const result = head->run(arena, bucket.texts, frame.queue);
  if (!form.normalize) return result;
  pool({.rows = {bucket.texts, head->columns(), DType::f32, frame.queue},
        .hidden = result,
        .starts = there.kept_starts,
        .lengths = there.kept_lengths,
        .pooling = Pooling::cls,
        .normalize = true,
        .out = vectors});
  return vectors;
}

Tensor DeviceLane::fetch(const void* result, const RowBatch& batch, const ResultForm& form) const {
  const bool pooled = form.pooling != Pooling::none;
  Tensor values = pooled ? Tensor(DType::f32, {batch.texts, pooled_columns()})
                         : Tensor(program_.dtype(), {batch.rows, program_.result_columns()});
  stream_->copy_out(values.data(), result, values.bytes());
  stream_->synchronize();
  return values.dtype() == DType::f32 ? std::move(values) : converted(values.view(), DType::f32);
}

Tensor DeviceLane::run(const RowBatch& batch, const ResultForm& form) {
  const Bucket bucket =
      bucket_of({.rows = batch.rows, .texts = batch.texts, .longest = batch.longest}, program_.options().longest);
  reserve(bucket, form.pooling);
  fill_inputs(batch, bucket, form.pooling);
  const std::shared_ptr<const RowBatch> texts = known_texts(batch);
  CallKind kind{.bucket = bucket, .form = form};
  if (texts) kind.lengths = texts->lengths, kind.padded = texts->padded;
  if (const Recording* known = recorded_.find(kind)) {
    known->work->launch();
    return fetch(known->result, batch, form);
  }
  // Done once before it is recorded: kernels are loaded and algorithms chosen, which a recording must not do.
  const void* const result = enqueue(bucket, form, texts.get(), nullptr);
  Tensor values = fetch(result, batch, form);
  if (recorded_.is_worth_it(kind)) record(kind, result, texts);
  return values;
}

void DeviceLane::record(const CallKind& kind, const void* result, const std::shared_ptr<const RowBatch>& texts) {
  const auto plans = std::make_shared<HeldPlans>();
  const auto work = [this, bucket = kind.bucket, form = kind.form, texts, plans] {
    enqueue(bucket, form, texts.get(), plans.get());
  };
  try {
    Recording recording{.work = stream_->record(work), .result = result};
    recording.plans = *plans;
    recorded_.keep(kind, std::move(recording));
  } catch (const Error& error) {
    // Why a recording is not made is no reason to lose the result, which is there. What is wrong with the device the
    // next call is told.
    if (error.kind() == ErrorKind::internal) throw;
    // So many lengths come at this time that one of these has lost its plan again.
    if (error.kind() != ErrorKind::invalid_argument) recorded_.refuse(kind);
  }
}

DeviceCalls::DeviceCalls(const Program& program, ProgramChoice choice) : program_(program), choice_(std::move(choice)) {
  if (choice_.of) return;
  choice_.of = [this](const Bucket&) -> const Program& { return program_; };
  choice_.arena_bytes = [this](std::int64_t rows, std::int64_t kept) { return program_.arena_bytes(rows, kept); };
}

std::unique_ptr<DeviceLane> DeviceCalls::take() {
  std::unique_lock lock(mutex_);
  if (free_.empty() && full_) freed_.wait(lock, [this] { return !free_.empty() || lanes_ == 0; });
  if (!free_.empty()) {
    std::unique_ptr<DeviceLane> lane = std::move(free_.back());
    free_.pop_back();
    return lane;
  }
  ++lanes_;
  return nullptr;
}

void DeviceCalls::lose(std::int64_t bytes, bool for_want_of_memory) {
  const std::lock_guard lock(mutex_);
  held_ -= bytes;
  --lanes_;
  full_ = lanes_ > 0 && (full_ || for_want_of_memory);
  freed_.notify_all();
}

bool DeviceCalls::drop_free() {
  std::vector<std::unique_ptr<DeviceLane>> dropped;
  {
    const std::lock_guard lock(mutex_);
    dropped.swap(free_);
  }
  if (dropped.empty()) return false;
  const std::size_t count = dropped.size();
  std::int64_t bytes = 0;
  for (const auto& lane : dropped) bytes += lane->activation_bytes();
  dropped.clear();  // their memory is there for others before they are told
  const std::lock_guard lock(mutex_);
  held_ -= bytes;
  lanes_ -= count;
  full_ = full_ && lanes_ > 0;
  freed_.notify_all();
  return true;
}

Tensor DeviceCalls::run(const RowBatch& batch, const ResultForm& form) {
  for (;;) {
    std::unique_ptr<DeviceLane> lane = take();
    std::int64_t before = 0;
    try {
      if (!lane) lane = std::make_unique<DeviceLane>(program_, choice_);
      before = lane->activation_bytes();
      Tensor values = lane->run(batch, form);
      held_ += lane->activation_bytes() - before;
      const std::lock_guard lock(mutex_);
      free_.push_back(std::move(lane));
      freed_.notify_one();
      return values;
    } catch (const Error& error) {  // a lane that failed is not used again
      lane.reset();                 // its memory is there for others before they are told
      const bool others_remain = lanes_ > 1;
      lose(before, is_out_of_memory(error));
      if (!is_out_of_memory(error) || !others_remain) throw;
    } catch (...) {
      lane.reset();
      lose(before, false);
      throw;
    }
  }
}

}  // namespace stof
