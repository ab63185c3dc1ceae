// SPDX-License-Identifier: Apache-2.0
// Work that a device does beside the host, in the order in which it is put there.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>

namespace stof {

// Work that was recorded, put on its stream as often as wanted. Addresses and sizes are those of the recording.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  virtual void launch() const = 0;
};

// Used by one thread at a time. Throws device when the device fails, for work that was put there earlier too.
class DeviceStream {
 public:
  virtual ~DeviceStream() = default;
  virtual void* handle() const = 0;  // as WorkQueue and AttentionArguments take it

  virtual std::shared_ptr<void> device_memory(std::size_t bytes) = 0;  // zeroed, at a multiple of 256
  virtual std::shared_ptr<void> host_memory(std::size_t bytes) = 0;    // zeroed; copies from it run beside the host
  virtual void copy_in(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy_out(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;  // within the device; no overlap
  // What `work` puts on this stream is recorded and not done.
  virtual std::unique_ptr<RecordedWork> record(const std::function<void()>& work) = 0;
  virtual void synchronize() = 0;  // waits until everything is done
  // How long the device took for so many launches, in microseconds.
  virtual double time(const RecordedWork& work, int launches);
};

}  // namespace stof
