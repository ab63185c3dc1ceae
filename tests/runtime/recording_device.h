// SPDX-License-Identifier: Apache-2.0
// A device that works beside the host, played by the CPU: what is recorded is kept and done when it is launched. Counts
// what sessions ask of it.
#pragma once
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "src/backend/contract.h"
#include "src/base/error.h"
#include "src/runtime/pooling.h"

namespace stof {

struct StreamCounts {
  std::atomic<int> streams = 0, recordings = 0, launches = 0, copies_out = 0, row_copies = 0, waits = 0;
  std::atomic<std::size_t> bytes_in = 0, bytes_out = 0;
};

inline StreamCounts& stream_counts() {
  static StreamCounts counts;
  return counts;
}

// Of one allocation; more is out of memory.
inline std::size_t& most_device_bytes() {
  static std::size_t bytes = SIZE_MAX;
  return bytes;
}

// Of everything that is held at a time; more is out of memory.
inline std::atomic<std::size_t>& most_device_bytes_together() {
  static std::atomic<std::size_t> bytes = SIZE_MAX;
  return bytes;
}
inline std::atomic<std::size_t>& device_bytes_held() {
  static std::atomic<std::size_t> bytes = 0;
  return bytes;
}

// Whether there is memory for what is recorded.
inline std::atomic<bool>& recordings_fit() {
  static std::atomic<bool> fit = true;
  return fit;
}

// Whether what is recorded can be.
inline std::atomic<bool>& recordings_work() {
  static std::atomic<bool> work = true;
  return work;
}

class RecordingStream final : public DeviceStream {
 public:
  RecordingStream() { ++stream_counts().streams; }
  void* handle() const override { return nullptr; }
  std::shared_ptr<void> device_memory(std::size_t bytes) override {
    const std::size_t held = device_bytes_held() += bytes;
    if (bytes > most_device_bytes() || held > most_device_bytes_together()) {
      device_bytes_held() -= bytes;
      fail(ErrorKind::device, "out of memory: {} bytes wanted", bytes);
    }
    const std::shared_ptr<void> memory = host_memory(bytes);
    return {memory.get(), [memory, bytes](void*) { device_bytes_held() -= bytes; }};
  }
  std::shared_ptr<void> host_memory(std::size_t bytes) override {
    const std::size_t whole = (std::max<std::size_t>(bytes, 1) + 255) / 256 * 256;
    void* const memory = std::aligned_alloc(256, whole);
    std::memset(memory, 0, whole);
    return {memory, [](void* freed) { std::free(freed); }};
  }
  void copy_in(void* to, const void* from, std::size_t bytes) override {
    stream_counts().bytes_in += bytes;
    std::memcpy(to, from, bytes);
  }
  void copy(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void copy_out(void* to, const void* from, std::size_t bytes) override {
    ++stream_counts().copies_out;
    stream_counts().bytes_out += bytes;
    std::memcpy(to, from, bytes);
  }
  std::unique_ptr<RecordedWork> record(const std::function<void()>& work) override {
    struct Recorded final : RecordedWork {
      explicit Recorded(std::function<void()> what) : work(std::move(what)) {}
      void launch() const override {
        ++stream_counts().launches;
        work();
      }
      std::function<void()> work;
    };
    if (!recordings_fit())
      fail(ErrorKind::device, "out of memory: cuGraphInstantiateWithFlags: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
    if (!recordings_work()) fail(ErrorKind::device, "cuStreamEndCapture: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
    ++stream_counts().recordings;
    // As a graph does, it keeps addresses and sizes, and not what is in the caller's variables later.
    return std::make_unique<Recorded>(work);
  }
  void synchronize() override { ++stream_counts().waits; }
};

inline void pool_here(const PoolCall& call) {
  for (std::size_t text = 0; text < call.starts.size(); ++text) {
    const std::int64_t columns = call.rows.columns, length = call.lengths[text];
    float* const out = call.out + static_cast<std::int64_t>(text) * columns;
    std::fill_n(out, columns, 0.f);
    if (length == 0) continue;
    const RowBatch one{.rows = length,
                       .texts = 1,
                       .longest = length,
                       .tokens = {},
                       .positions = {},
                       .segments = {},
                       .offsets = {0, static_cast<std::int32_t>(length)},
                       .lengths = {static_cast<std::int32_t>(length)}};
    const Tensor pooled =
        pool(one, static_cast<const float*>(call.hidden) + call.starts[text] * columns, columns, call.pooling);
    if (call.normalize) normalize_rows(pooled);
    std::copy_n(pooled.as<float>(), columns, out);
  }
}

inline void highest_here(const RowShape& shape, const void* x, std::int32_t* out) {
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const float* const begin = static_cast<const float*>(x) + row * shape.columns;
    const bool has_nan = std::any_of(begin, begin + shape.columns, [](float value) { return std::isnan(value); });
    out[row] = has_nan ? -1 : static_cast<std::int32_t>(std::max_element(begin, begin + shape.columns) - begin);
  }
}

inline const Backend& recording_backend() {
  static const Backend backend = [] {
    Backend made = cpu_backend;
    made.open_stream = [](const Device&) -> std::unique_ptr<DeviceStream> {
      return std::make_unique<RecordingStream>();
    };
    made.rows.pool = pool_here;
    made.rows.highest = highest_here;
    made.rows.copy = [](const RowCopies& copies) {
      ++stream_counts().row_copies;
      cpu_backend.rows.copy(copies);
    };
    return made;
  }();
  return backend;
}

inline Device recording_device() {
  Device device = open_device("cpu");
  device.backend = &recording_backend();
  return device;
}

}  // namespace stof
