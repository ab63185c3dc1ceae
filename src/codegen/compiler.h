// SPDX-License-Identifier: Apache-2.0
// From CUDA source to a cubin: compiled with the library, or found in the cache, or compiled now.
#pragma once
#include <mutex>
#include <string>
#include <string_view>

#include "src/codegen/kernel_cache.h"
#include "src/codegen/nvrtc.h"

namespace stof {

enum class Jit { on, off };

struct CompilerOptions {
  Jit jit = Jit::on;
  KernelCacheOptions cache = {};
  const Nvrtc* nvrtc = nullptr;  // null: the machine has none
};

// The machine's NVRTC, and a cache in the user's folder.
CompilerOptions default_compiler_options();

class Compiler {
 public:
  explicit Compiler(CompilerOptions options) : options_(std::move(options)), cache_(options_.cache) {}

  // Why nothing can be compiled; empty when it can.
  std::string missing() const;

  // `source` may include what kernel_headers() holds. Throws unsupported, with the whole log, when it does not compile,
  // and when there is neither a cache entry nor a compiler that may be used.
  std::string cubin(std::string_view source, std::string_view target) const;

 private:
  CompilerOptions options_;
  KernelCache cache_;
  mutable std::mutex compiling_;  // NVRTC compiles one at a time, and the second may want what the first compiles
};

// A kernel compiled with the library, or nothing.
std::string_view embedded_cubin(std::string_view name, std::string_view target);

}  // namespace stof
