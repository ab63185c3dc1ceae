// SPDX-License-Identifier: Apache-2.0
// Calls of a program on a device that works beside the host. A call takes a lane: a stream with memory of its own. The
// first call of a bucket is recorded, or where attention is planned by length the second one of the same lengths; later
// ones are launched as a whole. The host waits once, for the result.
#pragma once
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "src/backend/device_stream.h"
#include "src/runtime/bucket.h"
#include "src/runtime/dense_head.h"
#include "src/runtime/growing_memory.h"
#include "src/runtime/program.h"
#include "src/runtime/recordings.h"
#include "stof/session.h"

namespace stof {

// Which program runs calls of a size, and the memory that any of them needs; of one model, for one device.
struct ProgramChoice {
  std::function<const Program&(const Bucket&)> of;
  std::function<std::int64_t(std::int64_t rows, std::int64_t kept)> arena_bytes;
  const DenseHead* head = nullptr;  // of pooled vectors; null: they stay as they are
};

// How many rows a call of a bucket keeps behind the last attention: one of each text where no more is wanted, else all
// (0).
std::int64_t rows_kept(const Bucket& bucket, Pooling pooling, const Backend& backend);

class DeviceLane {
 public:
  DeviceLane(const Program& program, ProgramChoice choice);
  ~DeviceLane();  // waits for the device
  DeviceLane(const DeviceLane&) = delete;
  DeviceLane& operator=(const DeviceLane&) = delete;

  // f32 [rows, columns], or [texts, columns] when pooled, of what the head makes where there is one.
  Tensor run(const RowBatch& batch, const ResultForm& form);
  std::int64_t activation_bytes() const { return activations_.bytes(); }
  std::size_t recordings() const { return recorded_.size(); }

 private:
  // Where the numbers of a call lie in the memory of its inputs.
  struct Inputs {
    std::span<std::int32_t> tokens, positions, segments, starts, lengths;
    std::span<std::int32_t> kept;                       // the row of each text that is wanted
    std::span<std::int32_t> kept_starts, kept_lengths;  // as starts and lengths, where the others are gone
    Inputs(std::int32_t* begin, const Bucket& bucket);
    static std::int64_t count(const Bucket& bucket) { return 3 * bucket.rows + 5 * bucket.texts; }
  };

  void reserve(const Bucket& bucket, Pooling pooling);
  void fill_inputs(const RowBatch& batch, const Bucket& bucket, Pooling pooling) const;
  // What of the call the host has to know besides its bucket, or null where the device reads that: attention is planned
  // by length.
  std::shared_ptr<const RowBatch> known_texts(const RowBatch& batch) const;
  Frame frame_of(const Bucket& bucket, Pooling pooling, const RowBatch* texts) const;
  // From the inputs on the host to the result on the device; returns where the result's rows are. `plans`: see Frame.
  const void* enqueue(const Bucket& bucket, const ResultForm& form, const RowBatch* texts, HeldPlans* plans) const;
  const void* pool(const Bucket& bucket, const ResultForm& form, const Frame& frame, const void* hidden) const;
  std::int64_t pooled_columns() const;
  std::int64_t vector_bytes(const Bucket& bucket) const;
  void record(const CallKind& kind, const void* result, const std::shared_ptr<const RowBatch>& texts);
  Tensor fetch(const void* result, const RowBatch& batch, const ResultForm& form) const;

  const Program& program_;  // what all programs of the model have in common
  ProgramChoice choice_;
  std::unique_ptr<DeviceStream> stream_;
  std::shared_ptr<void> workspace_;
  GrowingMemory host_inputs_, inputs_, activations_, pooled_;
  Recordings recorded_;
};

// Thread-safe: calls that run at the same time have lanes of their own, steady work makes none. Where the device has no
// memory for one more lane, calls wait for those that there are.
class DeviceCalls {
 public:
  // `choice`: empty where there is one program.
  explicit DeviceCalls(const Program& program, ProgramChoice choice = {});
  Tensor run(const RowBatch& batch, const ResultForm& form);
  // Frees lanes that wait for a call; whether there was one.
  bool drop_free();
  // For activations, of every lane.
  std::int64_t bytes_held() const { return held_; }
  std::size_t lanes() const { return lanes_; }

 private:
  std::unique_ptr<DeviceLane> take();  // null: one is to be made, and is counted
  void lose(std::int64_t bytes, bool for_want_of_memory);

  const Program& program_;
  ProgramChoice choice_;
  std::mutex mutex_;
  std::condition_variable freed_;
  bool full_ = false;  // one lane more did not fit
  std::vector<std::unique_ptr<DeviceLane>> free_;
  std::atomic<std::int64_t> held_ = 0;
  std::atomic<std::size_t> lanes_ = 0;
};

}  // namespace stof
