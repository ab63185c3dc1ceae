// SPDX-License-Identifier: Apache-2.0
#include "src/attention/choose.h"

#include <algorithm>

#include "src/base/error.h"

namespace stof {
namespace {

void check_wanted(std::span<const AttentionKernel> kernels, std::string_view wanted) {
  std::string names = "auto";
  for (const AttentionKernel& kernel : kernels) {
    if (kernel.name == wanted) return;
    names += fmt::format(", {}", kernel.name);
  }
  fail(ErrorKind::invalid_argument, "unknown attention kernel '{}'; accepted: {}", wanted, names);
}

Refusal refuses(const AttentionKernel& kernel, const AttentionProblem& problem, const DeviceCaps& device) {
  const bool on_gpu = device.arch != 0;
  if (problem.from_table && on_gpu && kernel.reserve == nullptr) return "it takes masks of the host";
  return kernel.refuses(problem, device);
}

[[noreturn]] void nothing_left(std::span<const Refused> refusals) {
  std::string text = "no attention kernel takes this problem:";
  for (const Refused& refused : refusals) text += fmt::format("\n  {}: {}", refused.kernel, refused.why);
  throw Error(ErrorKind::unsupported, text);
}

}  // namespace

Choice choose(std::span<const AttentionKernel> kernels, const AttentionProblem& problem, const DeviceCaps& device,
              std::string_view wanted) {
  const bool any = wanted == "auto";
  if (!any) check_wanted(kernels, wanted);
  Choice choice;
  for (const AttentionKernel& kernel : kernels) {
    if (Refusal why_not = refuses(kernel, problem, device)) {
      if (any || kernel.name == wanted) choice.refusals.push_back({kernel.name, std::move(*why_not)});
      continue;
    }
    if (!any && kernel.name != wanted) continue;
    for (AttentionPlan& plan : kernel.candidates(problem, device)) {
      if (choice.kernel == nullptr || plan.predicted_us < choice.plan.predicted_us) {
        choice.kernel = &kernel;
        choice.plan = plan;
      }
      choice.considered.push_back(std::move(plan));
    }
  }
  if (choice.kernel == nullptr) nothing_left(choice.refusals);
  return choice;
}

}  // namespace stof
