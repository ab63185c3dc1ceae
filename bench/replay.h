// SPDX-License-Identifier: Apache-2.0
// Device time of what is launched again and again: each launch between two events.
#pragma once
#include <functional>
#include <vector>

#include "src/backend/cuda/driver/stream.h"

namespace stof::cuda {

struct Replays {
  int count = 15;
  int warm = 3;  // before them, not counted
};

// Microseconds of each launch, ascending.
std::vector<double> replay_us(const Gpu& gpu, StreamHandle stream, const Replays& replays,
                              const std::function<void()>& launch);

// The same of a graph that is made of what `record` does to a stream.
std::vector<double> replay_us(const Gpu& gpu, const Replays& replays, const std::function<void(StreamHandle)>& record);

}  // namespace stof::cuda
