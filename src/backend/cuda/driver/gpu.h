// SPDX-License-Identifier: Apache-2.0
// One GPU as this process uses it: its primary context, which other libraries of the process share, and its numbers.
#pragma once
#include "src/backend/cuda/driver/api.h"
#include "stof/device.h"

namespace stof::cuda {

struct Gpu {
  int ordinal = 0;
  DeviceOrdinal device = 0;
  ContextHandle context = nullptr;
  DeviceCaps caps;
  int shared_bytes_per_block = 0;  // what a kernel may ask for
  int l2_bytes = 0;
  bool counts_as_older = false;  // its own machine code is not that of caps.arch
};

// Opened at the first call, kept to the end of the process: a primary context that is released while another library
// uses it takes that library's memory with it. Throws device when there is no driver or no such device.
const Gpu& gpu(int ordinal);

// For tests of what older GPUs run: those opened from now on count as of this compute capability, 80 for 8.0, if
// theirs is higher. Kernels are compiled for it at run time, to PTX, which the driver translates.
void count_gpus_as(int arch);

// Makes the GPU's context the calling thread's, and puts back what was there.
class CurrentGpu {
 public:
  explicit CurrentGpu(const Gpu& gpu) { driver().push_context(gpu.context); }
  ~CurrentGpu() {
    ContextHandle popped = nullptr;
    driver().pop_context.attempt(&popped);
  }
  CurrentGpu(const CurrentGpu&) = delete;
  CurrentGpu& operator=(const CurrentGpu&) = delete;
};

// Some thread may be recording a graph: what this one allocates and frees meanwhile must not go into it, and is none of
// its business.
class OutsideCapture {
 public:
  OutsideCapture() { driver().exchange_capture_mode.attempt(&mode_); }
  ~OutsideCapture() { driver().exchange_capture_mode.attempt(&mode_); }
  OutsideCapture(const OutsideCapture&) = delete;
  OutsideCapture& operator=(const OutsideCapture&) = delete;

 private:
  int mode_ = kCaptureRelaxed;
};

}  // namespace stof::cuda
