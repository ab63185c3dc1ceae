// SPDX-License-Identifier: Apache-2.0
// Device time of what is launched again and again: each launch between two events; or kernels, one behind the other in
// a graph.
#pragma once
#include <functional>
#include <vector>

#include "src/backend/cuda/driver/stream.h"

namespace stof::cuda {

struct Replays {
  int count = 15;
  int warm = 3;                         // before them, not counted
  std::function<void()> in_front = {};  // of each, not counted
};

// Microseconds of each launch, ascending.
std::vector<double> replay_us(const Gpu& gpu, StreamHandle stream, const Replays& replays,
                              const std::function<void()>& launch);

// The same of a graph that is made of what `record` does to a stream.
std::vector<double> replay_us(const Gpu& gpu, const Replays& replays, const std::function<void(StreamHandle)>& record);

// What the launches of a graph find in the cache.
struct Reuse {
  const char* name;  // in results
  bool to_and_fro;   // each reads what the one in front wrote
  bool rotates;      // through buffers that the cache does not hold, else the same ones
};
constexpr Reuse kReuses[] = {{"hot_us", false, false}, {"to_and_fro_us", true, false}, {"rotating_us", false, true}};
constexpr int kLaunches = 64;  // of a graph

// Of launch n: which of `buffers` it takes, and whether from their output to their input.
struct Turn {
  std::size_t buffers;
  bool back;
};

// Microseconds of one launch: the median of replays of a graph of kLaunches.
double launch_us(const Gpu& gpu, const Replays& replays, const Reuse& reuse, std::size_t buffers,
                 const std::function<void(StreamHandle, Turn)>& launch);

}  // namespace stof::cuda
