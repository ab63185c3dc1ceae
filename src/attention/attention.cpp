// SPDX-License-Identifier: Apache-2.0
// Planning: measure, choose, pack, arrange (planned.cpp). Running: check, group items by plan, launch.
#include "stof/attention.h"

#include <algorithm>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <utility>

#include "src/attention/call_parts.h"
#include "src/attention/call_plans.h"
#include "src/attention/host_lists.h"
#include "src/attention/pages.h"
#include "src/base/call_memory.h"
#include "src/base/pool.h"

namespace stof {

struct Attention::State : CallPlans {
  using CallPlans::CallPlans;
  Pool<CallMemory> memory;
};

Attention::Attention(const Mask& mask, const AttentionShape& shape, const Device& device,
                     const AttentionOptions& options)
    : state_(std::make_unique<State>(mask, shape, device, options.kernel)) {}
Attention::Attention(const MaskTable& table, const Mask& limit, const AttentionShape& shape, const Device& device)
    : state_(std::make_unique<State>(table, limit, shape, device)) {}
Attention::~Attention() = default;
Attention::Attention(Attention&&) noexcept = default;
Attention& Attention::operator=(Attention&&) noexcept = default;

const AttentionPlan& Attention::plan() const { return state_->first()->choice.plan; }
const AttentionPlan& Attention::plan_for_pages() const { return state_->for_pages()->choice.plan; }

std::int64_t Attention::plans_made() const { return state_->made(); }

void Attention::prepare(std::int64_t queries, std::int64_t keys) const { state_->prepare(queries, keys); }

std::size_t Attention::workspace_bytes() const { return state_->workspace_bytes(); }

void Attention::update(const TableContents& contents) const { state_->update(contents); }

namespace {

// Of a call without rows, which needs no plan.
void judge_lists(const CheckedCall& checked, const Device& device) {
  AttentionCall call = checked.call;
  call.items = checked.items;
  device.backend->judge_lists(call, device);
}

void hold(const std::shared_ptr<const void>& used, std::vector<std::shared_ptr<const void>>& all) {
  if (std::find(all.begin(), all.end(), used) == all.end()) all.push_back(used);
}

// What the call's work reads, and the caller's graph may read again.
void hold_what_is_used(const CallParts& parts, const AttentionArguments& arguments) {
  for (const PartOfCall& part : parts.all) hold(part.plan, *arguments.plans_used);
  if (arguments.relative_bias != nullptr) hold(arguments.relative_bias->memory(), *arguments.plans_used);
}

}  // namespace

void Attention::run(const AttentionArguments& arguments) const {
  CallPlans& plans = *state_;
  const Device& device = plans.where();
  const bool on_host = device.backend->memory == nullptr;
  plans.check_lengths_known(arguments);
  const std::optional<DeviceLengths> lists = on_host ? arguments.device_lengths : plans.lists_of(arguments);
  if (on_host && (lists || arguments.device_kv_lengths))  // as it is given, before its lists are read
    static_cast<void>(plans.check(arguments, lists, std::pmr::get_default_resource()));
  if (const auto same = on_host ? with_host_lengths(arguments) : std::nullopt) {
    static_cast<void>(check_call(*same, plans.extent(), plans.differ_by_item(), std::pmr::get_default_resource(),
                                 names_of_lists(arguments)));
    run(*same);
    if (arguments.device_lengths && arguments.device_lengths->status != nullptr) *arguments.device_lengths->status = {};
    return;
  }
  const Pool<CallMemory>::Lease lease(state_->memory);
  CallMemory& memory = *lease;
  memory.reset();
  const CheckedCall checked = plans.check(arguments, lists, &memory);
  const bool has_rows = checked.items.empty() || checked.items.front().queries > 0;
  CallParts parts{PartsOfCall(&memory)};
  if (has_rows)
    parts =
        lists ? CallParts{parts_of_lists(plans, checked, &memory)} : parts_of_items(plans, checked, arguments, &memory);
  if (arguments.workspace != nullptr) check_workspace(arguments, plans.workspace_bytes());
  if (!has_rows) return judge_lists(checked, device);
  if (checked.call.pages.table != nullptr && (on_host || arguments.check_pages)) {
    AttentionCall whole = checked.call;
    whole.items = checked.items;
    check_pages(whole, device);
  }
  if (arguments.plans_used != nullptr) hold_what_is_used(parts, arguments);
  AttentionCall call = checked.call;
  call.held = arguments.plans_used;
  std::unique_lock one_at_a_time(plans.launching, std::defer_lock);
  if (std::ranges::any_of(parts.all, [&](const PartOfCall& part) { return plans.is_of_few(part.plan); }))
    one_at_a_time.lock();
  run_parts(parts, call, device);
}

}  // namespace stof
