// SPDX-License-Identifier: Apache-2.0
#include "src/attention/run_plan.h"

#include <algorithm>
#include <functional>

#include "src/attention/pages.h"
#include "src/attention/residue_items.h"
#include "src/base/error.h"

namespace stof {
namespace {

// What the plan's kernel cannot read is brought to where it can, or refused.
void run_kernel(const Planned& planned, const AttentionCall& call, const Device& device) {
  const AttentionKernel& kernel = *planned.choice.kernel;
  if (call.device_lengths != nullptr && !kernel.reads_device_lengths)
    fail(ErrorKind::unsupported, "attention: {} does not read device_kv_lengths; accepted with it: kv_lengths",
         kernel.name);
  if (call.pages.table == nullptr || kernel.reads_pages)
    kernel.run(planned.choice.plan, planned.arranged, call, device);
  else kernel.run(planned.choice.plan, planned.arranged, GatheredKeys(call).call, device);
}

void run_classes(const Planned& planned, const AttentionCall& call, const Device& device) {
  const std::int64_t residues = planned.choice.plan.residues;
  if (residues == 1) return run_kernel(planned, call, device);
  for_each_class(call, residues, [&](const AttentionCall& part) { run_kernel(planned, part, device); });
}

}  // namespace

void run_plan(const Planned& planned, const AttentionCall& call, const Device& device) {
  if (planned.rest == nullptr) return run_classes(planned, call, device);
  const auto both = [&](const AttentionCall& first, const AttentionCall& second) {
    run_classes(*planned.rest, first, device);
    run_classes(planned, second, device);
  };
  device.backend->sums->run(planned.room, call, device, std::ref(both));  // a reference needs no memory
}

std::size_t workspace_bytes_of(const Planned& planned, const AttentionShape& shape, const Device& device) {
  const auto bytes = planned.choice.kernel->workspace_bytes;
  const std::size_t own = bytes == nullptr ? 0 : bytes(planned.arranged);
  if (planned.rest == nullptr) return own;
  // Both kernels have the same, one after the other.
  return device.backend->sums->workspace_bytes(shape) + std::max(own, workspace_bytes_of(*planned.rest, shape, device));
}

}  // namespace stof
