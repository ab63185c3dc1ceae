// SPDX-License-Identifier: Apache-2.0
// The kernels that a search will want, compiled while it runs by processes beside this one: `stof compile-worker`.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "src/codegen/compile_worker.h"
#include "src/model/model.h"
#include "src/runtime/tune.h"

namespace stof::cli {

// How this program is told to be a worker: `stof compile-worker NVRTC`, for nobody else to call.
inline constexpr const char* kCompileWorker = "compile-worker";

struct SearchKernels {
  std::vector<CompileJob> jobs;  // in the order in which the search asks for them; each once
  bool all_cublaslt = true;      // no kernel of our own is among its settings, none that is built in either
};
// Of a search with these options. Needs no GPU but its description.
SearchKernels kernels_of_search(const Model& model, const TuneOptions& options);

class KernelsAhead {
 public:
  // `processes` 0: one less than there are cores, for this one measures.
  KernelsAhead(const std::vector<CompileJob>& jobs, int processes);
  ~KernelsAhead();  // ends them
  KernelsAhead(const KernelsAhead&) = delete;
  KernelsAhead& operator=(const KernelsAhead&) = delete;
};

// For a search with these options, on a GPU; nothing elsewhere, and where there is no compiler, which is said.
std::unique_ptr<KernelsAhead> kernels_ahead(const Model& model, const TuneOptions& options, int processes);

}  // namespace stof::cli
