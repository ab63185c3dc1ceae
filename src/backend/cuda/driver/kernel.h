// SPDX-License-Identifier: Apache-2.0
// Compiled kernels: loaded from a cubin, launched on a caller's stream.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "src/backend/cuda/driver/gpu.h"

namespace stof::cuda {

class KernelLibrary {
 public:
  // Throws device when the driver does not take the binary: another architecture, or damaged.
  KernelLibrary(const Gpu& gpu, std::span<const std::byte> cubin);
  ~KernelLibrary();
  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;
  LibraryHandle handle() const { return handle_; }
  const Gpu& gpu() const { return *gpu_; }

 private:
  const Gpu* gpu_;
  LibraryHandle handle_ = nullptr;
};

struct Dimensions {
  unsigned x = 1, y = 1, z = 1;
};

struct Launch {
  Dimensions grid;
  StreamHandle stream = nullptr;
  unsigned cluster = 1;
  bool overlap_previous = false;    // the kernel waits for the one before by itself (programmatic dependent launch)
  unsigned least_shared_bytes = 0;  // that a CTA takes, whatever the kernel needs; at most what was allowed
};

// One entry of a library, with its dynamic shared memory granted. Valid as long as the library is.
class Kernel {
 public:
  Kernel(const KernelLibrary& library, const std::string& name, unsigned threads, unsigned dynamic_shared_bytes);

  int blocks_per_multiprocessor() const;
  // So that launches may take this much dynamic shared memory a CTA.
  void allow_shared_bytes(unsigned bytes) const;
  // arguments: the address of each parameter, in order, as many as the kernel has.
  void launch(const Launch& launch, std::span<void* const> arguments) const;

 private:
  const Gpu* gpu_;
  KernelHandle handle_ = nullptr;
  FunctionHandle function_ = nullptr;
  unsigned threads_, dynamic_shared_bytes_;
};

}  // namespace stof::cuda
