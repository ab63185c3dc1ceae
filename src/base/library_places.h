// SPDX-License-Identifier: Apache-2.0
// Where the libraries of a CUDA toolkit may be, which are loaded by name.
#pragma once
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace stof {

// Each name in turn: as the loader finds it, in the toolkit's folder, in NVIDIA's Python packages beside this library
// (`package` is the folder of the one for CUDA 12, "cuda_nvrtc"), and in .toolchain/ of the folders above it.
std::vector<std::filesystem::path> library_places(std::span<const std::string_view> names, std::string_view package);

// A loaded library's file, by which the loader found it; empty when it does not say.
std::filesystem::path library_file(void* library);

}  // namespace stof
