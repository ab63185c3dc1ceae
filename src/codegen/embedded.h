// SPDX-License-Identifier: Apache-2.0
// Files that travel inside the library (cmake/StofEmbed.cmake).
#pragma once
#include <span>
#include <string_view>

namespace stof {

struct EmbeddedFile {
  std::string_view name, bytes;
};

// kernels/cuda and kernels/shared, by the names that they include each other by: what NVRTC sees in place of a disk.
std::span<const EmbeddedFile> kernel_headers();

// Units that instantiate kernels (kernels/cuda/instances.cmake), by name: what the run-time compiler is given.
std::span<const EmbeddedFile> kernel_sources();

// Kernels compiled with the library, "NAME.TARGET" each ("row_attention.sm_80"); none in a build without nvcc.
std::span<const EmbeddedFile> kernel_binaries();

}  // namespace stof
