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

Choice consider(std::span<const AttentionKernel> kernels, const AttentionProblem& problem, const DeviceCaps& device,
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
  return choice;
}

Choice better(Choice a, Choice b) {
  if (a.kernel == nullptr || (b.kernel != nullptr && b.plan.predicted_us < a.plan.predicted_us))
    std::swap(a.kernel, b.kernel), std::swap(a.plan, b.plan);
  a.considered.insert(a.considered.end(), std::make_move_iterator(b.considered.begin()),
                      std::make_move_iterator(b.considered.end()));
  const auto refused = [&](std::string_view kernel) {
    return std::any_of(a.refusals.begin(), a.refusals.end(), [&](const Refused& r) { return r.kernel == kernel; });
  };
  for (Refused& other : b.refusals)
    if (!refused(other.kernel)) a.refusals.push_back(std::move(other));
  std::erase_if(a.refusals, [&](const Refused& r) {
    return std::any_of(a.considered.begin(), a.considered.end(),
                       [&](const AttentionPlan& plan) { return plan.kernel == r.kernel; });
  });
  return a;
}

Choice settled(Choice choice) {
  if (choice.kernel == nullptr) nothing_left(choice.refusals);
  return choice;
}

Choice choose(std::span<const AttentionKernel> kernels, const AttentionProblem& problem, const DeviceCaps& device,
              std::string_view wanted) {
  return settled(consider(kernels, problem, device, wanted));
}

}  // namespace stof
