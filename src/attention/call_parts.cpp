// SPDX-License-Identifier: Apache-2.0
#include "src/attention/call_parts.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "src/attention/run_plan.h"

namespace stof {
namespace {

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

// side_by_side: items of few queries go apart where that is sooner side by side; else where it is sooner one behind the
// other.
PartsOfCall grouped(CallPlans& plans, const CheckedCall& checked, const AttentionArguments& arguments,
                    bool side_by_side, std::pmr::memory_resource* memory) {
  std::pmr::map<CallPlans::Plan, std::pmr::vector<AttentionItem>> groups(memory);
  const CallPlans::Plan few = plans.plan_of_few(checked.items, arguments, side_by_side);
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

std::optional<CoreShares> shares_of(const PartOfCall& leading, const PartOfCall& following, const AttentionCall& whole,
                                    const Device& device) {
  const auto is_one_launch = [](const Planned& plan) { return plan.rest == nullptr && plan.choice.plan.residues == 1; };
  if (!is_one_launch(*leading.plan) || !is_one_launch(*following.plan)) return std::nullopt;
  const AttentionCall first = call_of(leading, whole), second = call_of(following, whole);
  const auto planned = [](const PartOfCall& part, const AttentionCall& call) {
    return PlannedCall{*part.plan->choice.kernel, part.plan->arranged, call};
  };
  return device.backend->side_by_side->share(planned(leading, first), planned(following, second), device);
}

// What follows is of few queries: CallPlans::launching.
std::optional<SidesOfCall> sides_of(CallPlans& plans, const PartsOfCall& parts, const AttentionCall& whole) {
  if (parts.size() != 2) return std::nullopt;
  const std::size_t leading = plans.is_of_few(parts[0].plan) ? 1 : 0;
  if (!plans.is_of_few(parts[1 - leading].plan)) return std::nullopt;
  const auto shares = shares_of(parts[leading], parts[1 - leading], whole, plans.where());
  return shares ? std::optional(SidesOfCall{leading, *shares}) : std::nullopt;
}

void run_sides(const CallParts& parts, const AttentionCall& whole, const Device& device) {
  const PartOfCall &first = parts.all[parts.sides->leading], &second = parts.all[1 - parts.sides->leading];
  AttentionCall leading = call_of(first, whole), following = call_of(second, whole);
  bool leads = false;
  leading.beside = {parts.sides->shares.leading, &leads};
  run_plan(*first.plan, leading, device);
  if (leads) following.beside = {parts.sides->shares.following, nullptr};
  run_plan(*second.plan, following, device);
}

}  // namespace

CallParts parts_of_items(CallPlans& plans, const CheckedCall& checked, const AttentionArguments& arguments,
                         std::pmr::memory_resource* memory) {
  const Device& device = plans.where();
  const SideBySide* const beside = device.backend->side_by_side;
  const bool possible = beside != nullptr && beside->possible(device.caps) && arguments.workspace == nullptr;
  CallParts parts{grouped(plans, checked, arguments, possible, memory)};
  if (!possible || parts.all.size() < 2) return parts;
  parts.sides = sides_of(plans, parts.all, checked.call);
  if (!parts.sides) parts.all = grouped(plans, checked, arguments, false, memory);
  return parts;
}

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

void run_parts(const CallParts& parts, const AttentionCall& whole, const Device& device) {
  if (parts.sides) return run_sides(parts, whole, device);
  for (const PartOfCall& part : parts.all) run_plan(*part.plan, call_of(part, whole), device);
}

}  // namespace stof
