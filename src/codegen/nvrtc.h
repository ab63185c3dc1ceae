// SPDX-License-Identifier: Apache-2.0
// NVIDIA's run-time compiler, loaded by name: from the machine, a CUDA toolkit, or beside this program.
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/codegen/embedded.h"

namespace stof {

// Besides the architecture; a part of the key that a compiled kernel is found by.
inline constexpr std::string_view kCompileOption = "--std=c++20";

struct CompileRequest {
  std::string source;  // CUDA C++; may include the headers by their names
  std::string target;  // "sm_90a": machine code of this architecture; "compute_80": PTX, which drivers translate
  std::span<const EmbeddedFile> headers = {};
};

class Nvrtc {
 public:
  // Throws device when it cannot be loaded from there or lacks a function.
  explicit Nvrtc(const std::filesystem::path& library);

  // "NVRTC 13.0 (108974392 bytes)": the version says nothing about the build, the size does.
  const std::string& version() const { return version_; }
  const std::filesystem::path& path() const { return path_; }

  // A cubin, or PTX with the zero byte that ends it. Needs no GPU. Throws unsupported, with the compiler's whole log,
  // when the source does not compile.
  std::string compile(const CompileRequest& request) const;

 private:
  struct Api;
  std::filesystem::path path_;
  const Api* api_;  // never freed: NVRTC keeps memory that unloading it would lose
  std::string version_;
};

// Where it may be: the loader's own names, toolkits, NVIDIA's Python packages beside this library and in .toolchain/
// of the folders above it.
std::vector<std::filesystem::path> nvrtc_places();

// The first that loads, or null. The search is made once.
const Nvrtc* find_nvrtc();

}  // namespace stof
