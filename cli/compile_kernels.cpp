// SPDX-License-Identifier: Apache-2.0
#include "cli/compile_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "cli/demo.h"
#include "cli/json_output.h"
#include "cli/kernels_ahead.h"
#include "cli/messages.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "src/backend/contract.h"
#include "src/base/env.h"
#include "src/base/error.h"
#include "src/codegen/compiler.h"

namespace stof::cli {
namespace {

struct Failure {
  std::string name, why;
  ErrorKind kind;
};

// The one that a search would get by asking for it.
std::optional<Failure> compile(const CompileJob& job) {
  try {
    machine_compiler().cubin(job);
    return std::nullopt;
  } catch (const Error& error) {
    return Failure{job.name, error.what(), error.kind()};
  }
}

std::vector<Failure> compile(const std::vector<CompileJob>& jobs, int processes) {
  std::vector<Failure> failures;
  Progress progress("compiling", std::ssize(jobs));
  const KernelsAhead ahead(jobs, processes);
  for (const CompileJob& job : jobs) {
    if (std::optional<Failure> failure = compile(job)) failures.push_back(*std::move(failure));
    progress.advance(1);
  }
  return failures;
}

void check_has_kernels(const SearchKernels& kernels, const TuneOptions& options) {
  if (!kernels.all_cublaslt) return;
  if (options.dtype == DType::f32)
    fail(ErrorKind::invalid_argument,
         "--compile with --dtype f32, whose matmuls are all left to cuBLASLt; accepted: f16, bf16");
  if (options.device.caps.arch != 90)
    fail(ErrorKind::unsupported,
         "--compile: matmuls of {} are all left to cuBLASLt; kernels are compiled for compute capability 9.0, as of "
         "cuda:h200, cuda:h100",
         options.device.caps.name);
  fail(ErrorKind::unsupported,
       "--compile: the matmuls of this model are all left to cuBLASLt; kernels take sizes that 8 divides");
}

std::int64_t count_not_kept(const std::vector<CompileJob>& jobs) {
  return std::ranges::count_if(jobs, [](const CompileJob& job) { return !machine_compiler().keeps(job); });
}

void say(const Failure& failure) {
  const bool is_named = failure.why.starts_with(failure.name);
  cli::say(fmt::format("stof: {}\n", shortened(is_named ? failure.why : failure.name + ": " + failure.why)));
}

}  // namespace

void check_compiles(const TuneOptions& options) {
  if (options.device.backend != &cuda_backend)
    fail(ErrorKind::invalid_argument,
         "--compile with --device {}, for which nothing is compiled; accepted: cuda, cuda:N, cuda:h200, cuda:h100",
         options.device.backend->name);
  if (const std::string why_not = machine_compiler().missing(); !why_not.empty())
    fail(ErrorKind::unsupported, "nothing can be compiled here: {}", why_not);
}

void compile_kernels(const Model& model, const TuneOptions& options, int processes, const std::string& json) {
  const SearchKernels kernels = kernels_of_search(model, options);
  check_has_kernels(kernels, options);
  const std::filesystem::path folder = cache_folder() / "kernels";
  if (count_not_kept(kernels.jobs) > 0) check_keeps("kernels", folder);
  const Stopwatch watch;
  const std::vector<Failure> failures = compile(kernels.jobs, processes);
  const int compiled = machine_compiler().compiled();
  Json failed = Json::array();
  for (const Failure& one : failures) {
    say(one);
    failed.push_back({{"name", one.name}, {"why", one.why}});
  }
  if (!json.empty())
    write_json({{"kernels", kernels.jobs.size()},
                {"compiled", compiled},
                {"failed", std::move(failed)},
                {"seconds", watch.seconds()}},
               json);
  if (json != "-")
    fmt::print("{} kernels, {} of them compiled now, {} failed; {:.1f} s\n", kernels.jobs.size(), compiled,
               failures.size(), watch.seconds());
  if (!failures.empty())
    fail(failures.front().kind, "{} of {} kernels could not be compiled", failures.size(), kernels.jobs.size());
  // Compiled by this process or found, and lost to the next one.
  if (const std::int64_t lost = count_not_kept(kernels.jobs); lost > 0)
    fail(ErrorKind::bad_file, "{} of {} kernels are not in the cache, '{}': compiled, they could not be kept", lost,
         kernels.jobs.size(), folder.string());
}

}  // namespace stof::cli
