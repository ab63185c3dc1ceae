// SPDX-License-Identifier: Apache-2.0
// A program with the memory of one call: done again and again for its time, and looked into. Times are the device's own
// by replaying a recording, or the host's.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "src/backend/device_stream.h"
#include "src/runtime/bucket.h"
#include "src/runtime/growing_memory.h"
#include "src/runtime/program.h"
#include "src/runtime/turns.h"

namespace stof {

struct CallTime {
  double us = 0;      // median; on the host the least
  double spread = 0;  // of the middle half, as a share of the median
  int runs = 0;
};
CallTime call_time_of(std::vector<double> us);

// Times that this process has taken so far, of calls and of steps.
int times_taken();

enum class Caches : std::uint8_t { warm, cold };  // cold: what a call reads and writes is in none, on a GPU

class TimedCall {
 public:
  // As a session would run it, of tokens below `vocabulary`. `shared`: activations of calls that are
  // never done at the same time, as much as the largest needs; what lies there after another call, or once a larger one
  // has come, is no longer this one's. Null: memory of its own.
  TimedCall(const Program& program, const EvenCall& call, std::int64_t vocabulary = 1, GrowingMemory* shared = nullptr);
  ~TimedCall();

  // The program may have changed its settings since it was made.
  void run();
  CallTime time(Caches caches, double seconds);
  // With warm caches; on a GPU with the settings that the program has now, whatever they are later.
  OneTime timer();
  CallTime summed_up(std::vector<double> us) const;  // of one way of timing, by what CallTime::us says
  bool is_on_host() const { return stream_ == nullptr; }
  // A step by itself, done again and again: what it reads and writes is as near as it can be.
  CallTime time_step(std::size_t step, double seconds);
  // In microseconds, for each round and each number of steps from none to all: a call that ends there. A round takes
  // them in turns, so that a clock that drifts changes neighbours alike.
  std::vector<std::vector<double>> times_up_to_each_step(int rounds);

  // So many bytes of a value, from `offset` on: the piece again and again. The host brings it once.
  void fill(ValueId value, std::span<const std::byte> piece, std::int64_t offset, std::int64_t bytes);
  // So many bytes of a value, from `offset` on.
  std::vector<std::byte> read(ValueId value, std::int64_t offset, std::int64_t bytes);
  std::int64_t rows() const { return batch_.rows; }  // of its texts: nobody says what is in those past them
  std::int64_t row_capacity() const { return frame_.row_capacity; }

 private:
  using Work = std::function<void()>;
  CallTime time_of(const Work& call, Caches caches, double seconds);
  std::vector<double> host_times(const Work& call, double seconds);
  std::vector<double> device_times(const Work& call, Caches caches, double seconds);
  void flush() const;  // fills the caches with something else
  std::shared_ptr<void> memory(std::int64_t bytes);
  const Frame& frame();  // with the arena where it is now
  void bring_inputs(const Bucket& bucket);

  const Program& program_;
  std::unique_ptr<DeviceStream> stream_;  // null: the host does its work at once
  RowBatch batch_;
  GrowingMemory own_arena_;
  GrowingMemory* arena_;
  std::shared_ptr<void> workspace_, flushed_;
  std::vector<std::shared_ptr<void>> inputs_;
  Frame frame_;
};

}  // namespace stof
