// SPDX-License-Identifier: Apache-2.0
#include "cli/kernels_ahead.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/messages.h"
#include "src/backend/contract.h"
#include "src/backend/cuda/matmul/compile_ahead.h"
#include "src/base/threads.h"
#include "src/codegen/compiler.h"

namespace stof::cli {

SearchKernels kernels_of_search(const Model& model, const TuneOptions& options) {
  SearchKernels found;
  std::set<std::string> seen;
  for_each_setting(model, options, [&](const LinearSpec& spec, std::int64_t rows, const MatmulSetting& setting) {
    found.all_cublaslt = found.all_cublaslt && setting.kernel == MatmulSetting::Kernel::cublaslt;
    if (std::optional<CompileJob> job = cuda::compile_job(spec, rows, setting); job && seen.insert(job->name).second)
      found.jobs.push_back(*std::move(job));
  });
  return found;
}

KernelsAhead::KernelsAhead(const std::vector<CompileJob>& jobs, int processes) {
  machine_compiler().begin_beside(
      jobs, {.worker = {.program = "/proc/self/exe", .arguments = {kCompileWorker}},
             .workers = processes > 0 ? processes : std::max(1, usable_processors() - 1),
             .log = [](std::string_view message) { say(fmt::format("stof: compiler: {}\n", message)); }});
}

KernelsAhead::~KernelsAhead() { machine_compiler().end_beside(); }

std::unique_ptr<KernelsAhead> kernels_ahead(const Model& model, const TuneOptions& options, int processes) {
  if (options.device.backend != &cuda_backend) return nullptr;
  if (const std::string why_not = machine_compiler().missing(); !why_not.empty()) {
    say(fmt::format("stof: {}: only kernels that were built with this program are searched\n", why_not));
    return nullptr;
  }
  return std::make_unique<KernelsAhead>(kernels_of_search(model, options).jobs, processes);
}

}  // namespace stof::cli
