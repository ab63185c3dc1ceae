// SPDX-License-Identifier: Apache-2.0
#include "src/codegen/compiler.h"

#include <utility>

#include "src/base/env.h"
#include "src/base/error.h"
#include "src/codegen/source_closure.h"

namespace stof {

CompilerOptions default_compiler_options() {
  return {.jit = Jit::on, .cache = {.folder = cache_folder() / "kernels", .log = {}}, .nvrtc = find_nvrtc()};
}

Compiler::Compiler(CompilerOptions options)
    : options_(std::move(options)),
      cache_({.folder = options_.cache.folder,
              .limit_bytes = options_.cache.limit_bytes,
              .log = [this](std::string_view message) { tell(message); }}) {}

void Compiler::tell(std::string_view message) const {
  if (options_.cache.log) return options_.cache.log(message);
  const std::lock_guard lock(choosing_);
  if (beside_log_ && !std::exchange(told_, true)) beside_log_(message);
}

std::string Compiler::missing_elsewhere() const {
  return options_.jit == Jit::off ? "run-time compilation is off" : "";
}

std::string Compiler::missing() const {
  if (std::string why = missing_elsewhere(); !why.empty()) return why;
  if (options_.nvrtc == nullptr) return "NVRTC (libnvrtc.so.13 or .12) is missing";
  return {};
}

KernelKey Compiler::key_of(const CompileJob& job) const {
  return {.source = source_closure(job.source, kernel_headers()),
          .compiler = options_.nvrtc->version(),
          .options = std::string(kCompileOption),
          .target = job.target,
          .library_version = STOF_VERSION};
}

std::string Compiler::cubin(std::string_view source, std::string_view target) const {
  return cubin(CompileJob{.name = "a kernel", .source = std::string(source), .target = std::string(target)});
}

std::string Compiler::cubin(const CompileJob& job) const {
  // Without a compiler nothing says which compiler's entry to take: the cache belongs to the compiler.
  if (const std::string why_not = missing(); !why_not.empty())
    fail(ErrorKind::unsupported, "a kernel for {} is not part of this build and cannot be compiled: {}", job.target,
         why_not);
  const KernelKey key = key_of(job);
  if (const std::shared_ptr<CompilePool> beside = pool()) {
    if (std::optional<std::string> kept = cache_.find(key)) return *std::move(kept);
    if (std::optional<std::string> made = beside->take(job)) return *std::move(made);
  }
  const std::lock_guard lock(compiling_);
  if (std::optional<std::string> kept = cache_.find(key)) return *std::move(kept);
  std::string made = options_.nvrtc->compile({.source = job.source, .target = job.target, .headers = kernel_headers()});
  ++compiled_;
  cache_.publish(key, made);
  return made;
}

bool Compiler::keeps(const CompileJob& job) const { return cache_.find(key_of(job)).has_value(); }

std::shared_ptr<CompilePool> Compiler::pool() const {
  const std::lock_guard lock(choosing_);
  return pool_;
}

void Compiler::begin_beside(std::span<const CompileJob> jobs, const CompileBeside& beside) {
  if (!missing().empty()) return;
  PoolOptions options{.worker = beside.worker, .workers = beside.workers, .log = beside.log};
  options.worker.arguments.push_back(options_.nvrtc->path().string());
  options.made = [this](const CompileJob& job, const std::string& cubin) {
    ++compiled_;
    cache_.publish(key_of(job), cubin);
  };
  {
    const std::lock_guard lock(choosing_);
    beside_log_ = beside.log;
  }
  auto made = std::make_shared<CompilePool>(std::move(options));
  for (const CompileJob& job : jobs)
    if (!cache_.find(key_of(job))) made->add(job);
  const std::lock_guard lock(choosing_);
  pool_.swap(made);  // what there was before ends after the lock: its threads may have something to tell
}

void Compiler::wait_beside() const {
  if (const std::shared_ptr<CompilePool> beside = pool()) beside->wait();
}

void Compiler::end_beside() {
  std::shared_ptr<CompilePool> ended;
  const std::lock_guard lock(choosing_);
  ended.swap(pool_);
}

Compiler& machine_compiler() {
  static Compiler once(default_compiler_options());
  return once;
}

std::string kernels_fingerprint() {
  std::string all;
  for (const auto& files : {kernel_headers(), kernel_sources(), kernel_binaries()})
    for (const EmbeddedFile& file : files) all += fmt::format("{} {}\n", file.name, fingerprint_of(file.bytes).hex());
  return fingerprint_of(all).hex();
}

std::string_view embedded_cubin(std::string_view name, std::string_view target) {
  for (const EmbeddedFile& file : kernel_binaries())
    if (file.name.size() == name.size() + 1 + target.size() && file.name.starts_with(name) &&
        file.name.ends_with(target) && file.name[name.size()] == '.')
      return file.bytes;
  return {};
}

}  // namespace stof
