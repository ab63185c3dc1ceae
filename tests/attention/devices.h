// SPDX-License-Identifier: Apache-2.0
// The devices that tests of attention run on: those that are here.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "src/attention/host_tensors.h"
#include "src/backend/cuda/driver/api.h"
#include "tests/attention/problem.h"

namespace stof {

// Names for parameters: a test on "cuda" skips where there is none.
inline bool device_is_missing(const std::string& name) { return name == "cuda" && !cuda::missing_driver().empty(); }

#define STOF_SKIP_WITHOUT(device) \
  if (::stof::device_is_missing(device)) GTEST_SKIP() << ::stof::cuda::missing_driver()

// The CPU with two threads: the choice for problems as small as those of tests depends on how many there are.
inline Device open_with_two_threads(const std::string& name) {
  Device device = open_device(name);
  if (name == "cpu") device.caps.cores = 2;
  return device;
}

// Whether a kernel that was asked for must take problems of its form: the others refuse this GPU.
inline bool is_written_for(const Device& device, std::string_view kernel) {
  const bool of_hopper = kernel == "stream_attention" || kernel == "band_attention" || kernel == "gather_attention";
  return device.backend->memory == nullptr || !of_hopper || device.caps.arch == 90;
}

inline void run_on(const Device& device, const Attention& attention, const Problem& problem) {
  run_host_tensors(attention, problem.arguments(), device);
}

}  // namespace stof
