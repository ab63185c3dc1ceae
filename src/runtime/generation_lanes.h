// SPDX-License-Identifier: Apache-2.0
// What texts that go on need of a device, kept between calls where it works beside the host: a stream with its memory,
// and the steps that were recorded with its addresses. A call takes a lane; calls at the same time have lanes of their
// own.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/base/out_of_memory.h"
#include "src/runtime/device_side.h"
#include "src/runtime/program.h"

namespace stof {

// Prompts, or steps behind them, that one recording serves.
struct StepKind {
  const Program* program = nullptr;
  std::int64_t slots = 0, capacity = 0;
  std::int64_t prompt_rows = 0;  // rounded up; of a step none
  std::int64_t planned_keys = 0, texts = 0;
  bool picks = false;
  friend auto operator<=>(const StepKind&, const StepKind&) = default;
};

struct RecordedStep {
  std::unique_ptr<RecordedWork> work;
  const void* result = nullptr;
  HeldPlans plans = {};
  bool refused = false;
  std::int64_t used = 0;  // when, last
};

class GenerationLanes;

class GenerationLane {
 public:
  explicit GenerationLane(GenerationLanes& lanes);
  ~GenerationLane();
  GenerationLane(const GenerationLane&) = delete;
  GenerationLane& operator=(const GenerationLane&) = delete;

  DeviceSide& side() { return side_; }
  std::byte* keys() const { return keys_.data(); }
  std::byte* activations() const { return activations_.data(); }
  std::int64_t activation_bytes() const { return activations_.bytes(); }
  // At least so many bytes; what was there is lost where they are more than before. Lanes that wait make room.
  void reserve_keys(std::int64_t bytes);
  void reserve_activations(std::int64_t bytes);
  // For the tokens of so many texts, where a device finds them.
  void reserve_picked(std::int64_t texts);
  // As GenerationLanes has it.
  template <class Work>
  decltype(auto) with_room(const Work& work);
  // Puts on the stream: the likeliest token of each row of scores, and its way to the host. Where the host reads them
  // once the work is done; -1 for a row with NaN.
  const std::int32_t* pick(const RowShape& shape, const void* scores);

  // The recording of this kind, or what says that there is none yet; is_new: nothing was known of it. All memory is
  // where it will be.
  RecordedStep& step(const StepKind& kind, bool& is_new);

  static constexpr std::size_t kMostSteps = 64;  // of which something is known; what was not wanted for longest goes

 private:
  void reserve(GrowingMemory& memory, std::int64_t bytes, bool zeroed);

  GenerationLanes& lanes_;
  DeviceSide side_;
  GrowingMemory keys_, activations_, picked_, host_picked_;  // the last two of equal size
  std::array<std::int64_t, 4> recorded_with_ = {};           // bytes of all memory: it moves when it grows
  std::map<StepKind, RecordedStep> steps_;
  std::int64_t now_ = 0;
};

// Thread-safe.
class GenerationLanes {
 public:
  // Of a device that outlives them. others: frees memory of the device that nobody needs at this time; whether there
  // was some.
  explicit GenerationLanes(const Device& device, std::function<bool()> others = {})
      : device_(device), others_(std::move(others)) {}

  // A lane of one call, which is lost with the lease unless it is kept: after an error nobody knows what is in it.
  class Lease {
   public:
    Lease(GenerationLanes& lanes, std::unique_ptr<GenerationLane> lane) : lanes_(lanes), lane_(std::move(lane)) {}
    GenerationLane& operator*() const { return *lane_; }
    void keep();  // for other calls, where the device works beside the host

   private:
    GenerationLanes& lanes_;
    std::unique_ptr<GenerationLane> lane_;
  };
  Lease take();
  // Frees the memory of lanes that wait for a call; whether there was one.
  bool drop_waiting();
  // The same, and of others.
  bool make_room();
  // What work() gives; of work for which there was no memory, once more where room was made.
  template <class Work>
  decltype(auto) with_room(const Work& work) {
    try {
      return work();
    } catch (const Error& error) {
      if (!is_out_of_memory(error) || !make_room()) throw;
    }
    return work();
  }
  // For keys, values and activations, of every lane.
  std::int64_t bytes_held() const { return held_; }

 private:
  friend class GenerationLane;
  const Device& device_;
  std::function<bool()> others_;
  std::mutex mutex_;
  std::atomic<std::int64_t> held_ = 0;
  std::vector<std::unique_ptr<GenerationLane>> waiting_;
};

template <class Work>
decltype(auto) GenerationLane::with_room(const Work& work) {
  return lanes_.with_room(work);
}

}  // namespace stof
