// SPDX-License-Identifier: Apache-2.0
// Planning: measure, choose, pack, arrange (planned.cpp). Running: check, group items by plan, launch.
#include "stof/attention.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory_resource>
#include <optional>
#include <utility>

#include "src/attention/call_plans.h"
#include "src/attention/host_lists.h"
#include "src/attention/pages.h"
#include "src/attention/run_plan.h"
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

void hold(const std::shared_ptr<const Planned>& planned, std::vector<std::shared_ptr<const void>>& plans) {
  if (std::find(plans.begin(), plans.end(), planned) == plans.end()) plans.push_back(planned);
}

// What one plan has of a call: its items, or of lists of the device the longest item that it may have.
struct PartOfCall {
  CallPlans::Plan plan;
  std::pmr::vector<AttentionItem> items;
  DeviceItems lists;
};
using PartsOfCall = std::pmr::vector<PartOfCall>;

// The item that begins at the earliest position: what serves it serves all, in one launch. Null: all go apart.
template <class GoesApart>
const AttentionItem* first_of(std::span<const AttentionItem> items, const GoesApart& goes_apart) {
  const auto position = [](const AttentionItem& item) {  // without keys, any
    return item.keys == 0 ? std::numeric_limits<std::int64_t>::max() : item.keys - item.queries;
  };
  const AttentionItem* first = nullptr;
  for (const AttentionItem& item : items)
    if (!goes_apart(item) && (first == nullptr || position(item) < position(*first))) first = &item;
  return first;
}

PartsOfCall parts_of_items(CallPlans& plans, const CheckedCall& checked, const AttentionArguments& arguments,
                           std::pmr::memory_resource* memory) {
  std::pmr::map<CallPlans::Plan, std::pmr::vector<AttentionItem>> groups(memory);
  const CallPlans::Plan few = plans.plan_of_few(checked.items, arguments);
  const CallPlans::Plan base = plans.base_for(checked.items, arguments, few != nullptr);
  const auto goes_apart = [&](const AttentionItem& item) { return few && plans.are_few(item); };
  CallPlans::Plan of_all;
  if (!plans.differ_by_length())
    if (const AttentionItem* const first = first_of(checked.items, goes_apart))
      of_all = plans.plan_for(*first, base, arguments);
  for (const AttentionItem& item : checked.items)
    groups[goes_apart(item) ? few : of_all ? of_all : plans.plan_for(item, base, arguments)].push_back(item);
  PartsOfCall parts(memory);
  parts.reserve(groups.size());
  for (auto& [plan, items] : groups) parts.push_back({plan, std::move(items), checked.call.device_items});
  return parts;
}

// Which items are of few queries the device alone knows: of two launches each leaves the other's.
PartsOfCall parts_of_lists(CallPlans& plans, const CheckedCall& checked, std::pmr::memory_resource* memory) {
  PartsOfCall parts(memory);
  if (checked.items.empty()) return parts;
  parts.reserve(2);
  const auto add = [&](const CallPlans::Plan& plan, std::int64_t most_queries) -> DeviceItems& {
    AttentionItem longest = checked.items.front();
    longest.queries = std::min(longest.queries, most_queries);
    DeviceItems& lists = parts.emplace_back(PartOfCall{plan, {{longest}, memory}, checked.call.device_items}).lists;
    lists.least_first = plan->positions.begin;
    return lists;
  };
  const std::int64_t queries = checked.items.front().queries;
  const auto [few, most] = plans.few_of_lists();
  const DeviceItems& lists = checked.call.device_items;
  const bool one_by_one = lists.q_lengths != nullptr || lists.cu_q != nullptr;
  if (few && !one_by_one && queries == 1) {  // with a key or without, all of them
    add(few, most);
    return parts;
  }
  DeviceItems& others = add(plans.plan_of_lists(checked.call.pages.table != nullptr), queries);
  if (few == nullptr || (!one_by_one && queries > most)) return parts;
  others.least_queries = most + 1;
  add(few, most).status = nullptr;
  return parts;
}

// Chunks alone go as they go without trees.
bool may_have_trees(const PartOfCall& part, const DraftTrees& trees) {
  if (part.lists.count > 0) return true;
  return std::ranges::any_of(part.items, [&](const AttentionItem& item) { return item.queries <= trees.queries; });
}

AttentionCall call_of(const PartOfCall& part, const AttentionCall& whole) {
  AttentionCall call = whole;
  call.items = part.items;
  call.device_items = part.lists;
  if (!may_have_trees(part, call.trees)) call.trees = {};
  return call;
}

// Whether the first began, with the second beside it; else neither did.
bool run_side_by_side(const PartOfCall& first, const PartOfCall& second, const AttentionCall& whole,
                      const Device& device) {
  const auto is_one_launch = [](const Planned& plan) { return plan.rest == nullptr && plan.choice.plan.residues == 1; };
  const SideBySide* const side_by_side = device.backend->side_by_side;
  if (side_by_side == nullptr || !is_one_launch(*first.plan) || !is_one_launch(*second.plan)) return false;
  AttentionCall leading = call_of(first, whole), following = call_of(second, whole);
  const auto planned = [](const PartOfCall& part, const AttentionCall& call) {
    return PlannedCall{*part.plan->choice.kernel, part.plan->arranged, call};
  };
  const std::optional<CoreShares> shares =
      side_by_side->share(planned(first, leading), planned(second, following), device);
  if (!shares) return false;
  bool leads = false;
  leading.beside = {shares->leading, &leads};
  run_plan(*first.plan, leading, device);
  if (leads) following.beside = {shares->following, nullptr};
  run_plan(*second.plan, following, device);
  return true;
}

void run_parts(std::span<const PartOfCall> parts, const AttentionCall& whole, const Device& device) {
  if (parts.size() == 2 &&
      (run_side_by_side(parts[0], parts[1], whole, device) || run_side_by_side(parts[1], parts[0], whole, device)))
    return;
  for (const PartOfCall& part : parts) run_plan(*part.plan, call_of(part, whole), device);
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
  PartsOfCall parts(&memory);
  if (has_rows)
    parts = lists ? parts_of_lists(plans, checked, &memory) : parts_of_items(plans, checked, arguments, &memory);
  if (arguments.workspace != nullptr) check_workspace(arguments, plans.workspace_bytes());
  if (!has_rows) return judge_lists(checked, device);
  if (checked.call.pages.table != nullptr && (on_host || arguments.check_pages)) {
    AttentionCall whole = checked.call;
    whole.items = checked.items;
    check_pages(whole, device);
  }
  if (arguments.plans_used != nullptr)
    for (const PartOfCall& part : parts) hold(part.plan, *arguments.plans_used);
  AttentionCall call = checked.call;
  call.held = arguments.plans_used;
  run_parts(parts, call, device);
}

}  // namespace stof
