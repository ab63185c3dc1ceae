// SPDX-License-Identifier: Apache-2.0
// From CUDA source to a cubin: compiled with the library, or found in the cache, or compiled now, by this process or by
// others beside it.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "src/codegen/compile_pool.h"
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

// Processes that compile for this one, as long as somebody wants them to.
struct CompileBeside {
  WorkerProgram worker;
  int workers = 1;
  Log log = {};  // from several threads; also what the cache has to say where CompilerOptions names no one else
};

class Compiler {
 public:
  explicit Compiler(CompilerOptions options);

  // Why nothing can be compiled; empty when it can.
  std::string missing() const;
  // The same for another machine, whose NVRTC nobody knows: whether it is switched off.
  std::string missing_elsewhere() const;

  // Of the NVRTC that compiles; empty where nothing does.
  std::string version() const { return missing().empty() ? options_.nvrtc->version() : std::string(); }

  // Before the first kernel is asked for; `off` leaves those that were built with the library.
  void switch_jit(Jit jit) { options_.jit = jit; }

  // `source` may include what kernel_headers() holds. Throws unsupported, with the whole log, when it does not compile,
  // and when there is no compiler that may be used, whatever the cache holds: its entries are those of one compiler.
  std::string cubin(std::string_view source, std::string_view target) const;
  std::string cubin(const CompileJob& job) const;

  // Whether a later process finds it in the cache.
  bool keeps(const CompileJob& job) const;

  // From now on processes compile, those of `jobs` that are in no cache at once and in their order; cubin() waits for
  // what it wants. `worker` need not say which NVRTC: that is its last argument. Nothing where there is no NVRTC.
  void begin_beside(std::span<const CompileJob> jobs, const CompileBeside& beside);
  void wait_beside() const;  // until all of them are done
  void end_beside();         // what is not done is not compiled

  // Since this began to exist: kernels that were in no cache.
  int compiled() const { return compiled_; }

 private:
  KernelKey key_of(const CompileJob& job) const;
  std::shared_ptr<CompilePool> pool() const;
  void tell(std::string_view message) const;  // of the cache

  CompilerOptions options_;
  KernelCache cache_;
  mutable std::mutex compiling_;  // NVRTC compiles one at a time, and the second may want what the first compiles
  mutable std::mutex choosing_;   // guards the next three
  std::shared_ptr<CompilePool> pool_;
  Log beside_log_;
  mutable bool told_ = false;  // where no kernel can be kept, that is said once
  mutable std::atomic<int> compiled_ = 0;
};

// The one of this process, by default_compiler_options().
Compiler& machine_compiler();

// Of the kernels that travel inside the library, with all that they include and as they were compiled with it; 32
// digits.
std::string kernels_fingerprint();

// A kernel compiled with the library, or nothing.
std::string_view embedded_cubin(std::string_view name, std::string_view target);

}  // namespace stof
