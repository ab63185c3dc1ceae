// SPDX-License-Identifier: Apache-2.0
#include "src/attention/call_plans.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "src/attention/pages.h"
#include "src/attention/run_plan.h"
#include "src/attention/score_bias.h"
#include "src/backend/even_items.h"
#include "src/base/error.h"
#include "src/mask/beginning.h"

namespace stof {
namespace {

OverPages over_pages_of(const Planned& plan) {
  const auto of_kernel = plan.choice.kernel->over_pages;
  return of_kernel == nullptr ? OverPages::reads : of_kernel(plan.arranged);
}

void check_length(std::string_view name, std::int64_t length, std::int64_t limit) {
  if (length < 0 || length > limit)
    fail(ErrorKind::invalid_argument, "attention: {} {} to prepare for; accepted: 0..{}", length, name, limit);
}

}  // namespace

CallPlans::CallPlans(const Mask& mask, const AttentionShape& shape, const Device& device, std::string kernel)
    : mask_(mask),
      shape_(shape),
      device_(device),
      kernel_(std::move(kernel)),
      by_length_(depends_on_length(mask_)),
      by_item_(depends_on_batch(mask_)),
      planned_(std::make_shared<const Planned>(plan_attention(mask_, shape_, device_, kernel_))),
      plain_(planned_->choice.plan.residues == 1
                 ? planned_
                 : std::make_shared<const Planned>(plan_plain(mask_, shape_, device_, kernel_))),
      in_place_(plan_in_place()) {}

// Where a kernel that was not chosen reads pages and lengths where they lie, and the chosen one does not. Whether
// such a kernel takes a problem is known by its shape. Of chunks, which are fewer queries than keys, one for calls
// over pages that the chosen one may pass on or read late, or that is sooner than the chosen one over pages alone.
CallPlans::Plan CallPlans::plan_in_place() const {
  if (kernel_ != "auto" || plain_->choice.kernel->reads_device_lengths) return nullptr;
  for (const AttentionKernel& other : device_.backend->attention)
    if (other.reads_device_lengths && !other.refuses({.shape = shape_}, device_.caps))
      return std::make_shared<const Planned>(plan_plain(mask_, shape_, device_, other.name));
  if (shape_.queries >= shape_.keys) return nullptr;
  if (plain_->choice.kernel->over_pages != nullptr)
    return std::make_shared<const Planned>(plan_pages(mask_, shape_, device_));
  std::optional<Planned> sooner = plan_sooner_in_pages(*plain_, mask_, shape_, device_);
  return sooner ? std::make_shared<const Planned>(*std::move(sooner)) : nullptr;
}

// It has the rows of heads that share keys in one tile, where a kernel for few queries takes them in turns, but needs
// longer until the first key of a page.
bool CallPlans::stacks_in_pages() const {
  const AttentionPlan& plan = plain_->choice.plan;
  return plan.stacked_heads > 1 &&
         plan.predicted_us + plain_->choice.kernel->pages_us(plan) < in_place_->choice.plan.predicted_us;
}

const CallPlans::Plan& CallPlans::for_pages() const {
  if (!in_place_) return plain_;
  if (lengths_in_place()) return stacks_in_pages() ? plain_ : in_place_;
  const bool sooner = plain_->choice.kernel->over_pages == nullptr;  // plan_sooner_in_pages
  return !sooner && over_pages_of(*plain_) <= OverPages::reads ? plain_ : in_place_;
}

// Keys in pages and lengths that the host does not know cannot be cut into residue classes.
const CallPlans::Plan& CallPlans::base_of(const AttentionArguments& arguments) const {
  if (arguments.rows || arguments.device_lengths) return plain_;
  if (arguments.device_kv_lengths) return lengths_in_place() ? in_place_ : plain_;
  if (arguments.page_table) return for_pages();
  return planned_;
}

// A plan that adds two results was chosen for all of its rows: a fourth of them or more, of items that lie evenly and
// at the planned positions.
bool CallPlans::serves(const Plan& plan, std::span<const AttentionItem> items) const {
  if (plan->rest == nullptr) return true;
  if (std::cmp_greater(items.size(), shape_.batch) || !items_lie_evenly(items)) return false;
  const AttentionItem& item = items.front();
  return !lengths_of(item, false) && 4 * std::ssize(items) * item.queries >= shape_.batch * shape_.queries;
}

CallPlans::CallPlans(const MaskTable& table, const Mask& limit, const AttentionShape& shape, const Device& device)
    : mask_(limit),
      shape_(shape),
      device_(device),
      by_length_(depends_on_length(mask_)),
      by_item_(table.batch > 1 || depends_on_batch(mask_)),
      table_(plan_table(table, limit, shape_, device_)),
      planned_(table_->planned),
      plain_(planned_) {}

// The lengths of the plan of its own that an item needs; nothing when the first plan has its positions.
std::optional<CallPlans::Lengths> CallPlans::lengths_of(const AttentionItem& item, bool on_device) const {
  if (item.keys == 0) return std::nullopt;
  if (by_length_) {
    if (item.queries == shape_.queries && item.keys == shape_.keys) return std::nullopt;
    return Lengths{item.queries, item.keys};
  }
  const std::int64_t first = (on_device ? 1 : item.keys) - item.queries;
  if (first >= shape_.keys - shape_.queries) return std::nullopt;
  // Decoding an item shorter than planned, for one: a layout over every position that could come.
  return first < 0 ? every_position() : Lengths{shape_.keys, shape_.keys};
}

void CallPlans::check_lengths_known(const AttentionArguments& arguments) const {
  if (by_length_ && arguments.device_kv_lengths)
    fail(ErrorKind::invalid_argument,
         "attention: lengths on the device with a mask that depends on length; accepted: kv_lengths");
}

CallPlans::Plan CallPlans::plan_of_lists(bool over_pages) {
  if (table_) return plan_of_table();
  const Lengths lengths = shape_.queries > 1 ? every_position() : Lengths{shape_.keys, shape_.keys};
  const std::lock_guard lock(mutex_);
  const auto at_positions = [&](const Plan& base) {
    const Plan found = others_.find(lengths, base);
    return found ? found : base;
  };
  const Plan chosen = at_positions(plain_);
  const bool passed_on = over_pages && in_place_ && over_pages_of(*chosen) == OverPages::passes_on;
  return passed_on ? at_positions(in_place_) : chosen;
}

CallPlans::Plan CallPlans::base_for(std::span<const AttentionItem> items, const AttentionArguments& arguments,
                                    bool beside_few) {
  const Plan& base = base_of(arguments);
  const Plan& chosen = items.empty() || serves(base, items) ? base : plain_;
  if (!beside_few || chosen != plain_) return chosen;
  const auto longer = std::ranges::count_if(items, [this](const AttentionItem& item) { return !are_few(item); });
  if (longer != 1) return chosen;
  const auto& item = *std::ranges::find_if(items, [this](const AttentionItem& of) { return !are_few(of); });
  const std::lock_guard lock(mutex_);
  return one_ && has_plan(item, one_, arguments) ? one_ : chosen;
}

bool CallPlans::has_plan(const AttentionItem& item, const Plan& base, const AttentionArguments& arguments) const {
  const std::optional<Lengths> lengths = lengths_of(item, false);
  return !lengths || arguments.may_plan || others_.find(*lengths, base) || others_.find(every_position(), base);
}

CallPlans::Plan CallPlans::plan_for(const AttentionItem& item, const Plan& base, const AttentionArguments& arguments) {
  const bool on_device = arguments.device_kv_lengths.has_value();
  const std::optional<Lengths> lengths = lengths_of(item, on_device);
  if (table_) check_positions(item, !lengths);
  if (table_) return plan_of_table();
  if (!lengths) return base;
  const std::lock_guard lock(mutex_);
  const Plan found = plan_of(*lengths, base, item, arguments);
  // One that reads pages where rows are those that it was made for may not do so at other positions.
  const Plan& other = base == plain_ ? in_place_ : plain_;
  const bool passed_on = arguments.page_table && over_pages_of(*found) == OverPages::passes_on;
  return passed_on && other ? plan_of(*lengths, other, item, arguments) : found;
}

CallPlans::Plan CallPlans::plan_of_few(std::span<const AttentionItem> items, const AttentionArguments& arguments,
                                       bool side_by_side) {
  if (by_length_ || arguments.rows || arguments.device_kv_lengths) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto has_no_other = [&](const AttentionItem& item) {
    return are_few(item) && !has_plan(item, plain_, arguments);
  };
  if (!few_queries_.pays(items, side_by_side) && std::ranges::none_of(items, has_no_other)) return nullptr;
  if (arguments.may_plan) make_few();
  return few_;
}

bool CallPlans::is_of_few(const Plan& plan) {
  const std::lock_guard lock(mutex_);
  return plan == few_;
}

std::pair<CallPlans::Plan, std::int64_t> CallPlans::few_of_lists() {
  const std::lock_guard lock(mutex_);
  return {prepared_few_ > 0 ? few_ : nullptr, prepared_few_};  // runs make one, too
}

void CallPlans::make_few() {
  if (few_) return;
  Plan few = std::make_shared<const Planned>(few_queries_.plan(mask_, device_)), one = plan_of_one();
  std::map<Lengths, Plan> at_positions;
  const auto add = [&](const Lengths& lengths) { at_positions.emplace(lengths, make(lengths, one, 1)); };
  if (one) others_.for_each_prepared(add);
  few_ = std::move(few), one_ = std::move(one);
  plans_made_ += one_ ? 2 : 1;
  for (const auto& [lengths, plan] : at_positions) others_.add(lengths, one_, plan);
}

// The first one was chosen for as many items as long as the longest, of which all but one may have few queries.
CallPlans::Plan CallPlans::plan_of_one() const {
  if (by_item_ || shape_.batch == 1) return nullptr;
  AttentionShape of_one = shape_;
  of_one.batch = 1;
  const auto same = [](const AttentionPlan& a, const AttentionPlan& b) {
    return a.kernel == b.kernel && a.instance == b.instance && a.format == b.format;
  };
  const Choice choice = choose_plain(mask_, of_one, device_, kernel_);
  const bool reads_pages = choice.kernel->reads_pages && choice.kernel->over_pages == nullptr;
  if (!reads_pages || same(choice.plan, plain_->choice.plan)) return nullptr;
  return std::make_shared<const Planned>(replan(mask_, of_one, device_, choice));
}

CallPlans::Plan CallPlans::plan_of(const Lengths& lengths, const Plan& base, const AttentionItem& item,
                                   const AttentionArguments& arguments) {
  if (Plan found = others_.find(lengths, base)) return found;
  // Where a run may plan, the bits of its results do not depend on what was planned before.
  if (Plan wider = by_length_ || arguments.may_plan ? nullptr : others_.find(every_position(), base)) return wider;
  if (!arguments.may_plan)
    fail(ErrorKind::invalid_argument,
         "attention: {} queries and {} keys need a plan of their own, which this call may not make; prepare them",
         item.queries, arguments.device_kv_lengths ? 1 : item.keys);
  Plan made = make(lengths, base, batch_of(base));
  others_.add(lengths, base, made);
  return made;
}

void CallPlans::check_positions(const AttentionItem& item, bool planned_for) const {
  if (planned_for) return;
  const std::string accepted =
      by_length_ ? fmt::format("{} and {}, as its limit depends on length", shape_.queries, shape_.keys)
                 : fmt::format("keys - queries of {} and more", shape_.keys - shape_.queries);
  fail(ErrorKind::invalid_argument, "attention: {} queries and {} keys with a plan of a table; accepted: {}",
       item.queries, item.keys, accepted);
}

CallPlans::Plan CallPlans::plan_of_table() {
  const std::lock_guard lock(mutex_);
  if (!updated_) fail(ErrorKind::invalid_argument, "attention: the plan's table has no contents; update it first");
  return updated_;
}

void CallPlans::update(const TableContents& contents) {
  if (!table_) fail(ErrorKind::invalid_argument, "attention: this plan was made for a mask, not for a table");
  check_contents(table_->form, contents);
  const auto on_device = planned_->choice.kernel->update;
  if (on_device != nullptr) on_device(planned_->arranged, contents, device_);
  auto now = on_device != nullptr ? planned_ : pack_contents(*table_, contents, shape_, device_);
  const std::lock_guard lock(mutex_);
  updated_ = std::move(now);
}

void CallPlans::prepare(std::int64_t queries, std::int64_t keys) {
  check_length("queries", queries, shape_.queries);
  check_length("keys", keys, shape_.keys);
  AttentionItem item;
  item.queries = queries;
  item.keys = keys;
  const std::optional<Lengths> lengths = lengths_of(item, false);
  if (table_) check_positions(item, !lengths);
  const std::lock_guard lock(mutex_);
  if (!by_length_ && few_queries_.are(queries)) {
    make_few();
    prepared_few_ = std::max(prepared_few_, queries);
  }
  if (!lengths) return;
  others_.check_room(*lengths);
  std::map<Plan, Plan> made;  // all of them, or what is prepared stays as it was
  for (const Plan& base : {planned_, plain_, in_place_, one_})
    if (base && base->rest == nullptr && !others_.find(*lengths, base) && !made.contains(base))
      made.emplace(base, make(*lengths, base, batch_of(base)));
  others_.keep(*lengths);
  for (const auto& [base, plan] : made) others_.add(*lengths, base, plan);
}

std::optional<DeviceLengths> CallPlans::lists_of(const AttentionArguments& arguments) const {
  const bool padded = arguments.cu_q.empty() && arguments.q_lengths.empty() && arguments.kv_lengths.empty();
  if (arguments.device_lengths || !arguments.device_kv_lengths || !padded) return arguments.device_lengths;
  if (plain_->choice.kernel->reads_device_lengths || (arguments.page_table && lengths_in_place())) return std::nullopt;
  const std::int64_t items = arguments.q.rank() == 0 ? 0 : arguments.q.dim(0);
  check_device_lengths(*arguments.device_kv_lengths, items);
  return DeviceLengths{.items = items, .kv_lengths = arguments.device_kv_lengths->as<std::int32_t>()};
}

CheckedCall CallPlans::check(const AttentionArguments& arguments, const std::optional<DeviceLengths>& lists,
                             std::pmr::memory_resource* list_memory) const {
  CheckedCall checked = check_lists(arguments, lists, list_memory);
  checked.call.bias = score_bias(arguments, shape_, device_);
  return checked;
}

CheckedCall CallPlans::check_lists(const AttentionArguments& arguments, const std::optional<DeviceLengths>& lists,
                                   std::pmr::memory_resource* list_memory) const {
  if (table_ && arguments.softcap.value_or(0.f) > 0 && !shape_.capped)
    fail(ErrorKind::unsupported, "attention: softcap = {} with a plan of a table; accepted where the shape is capped",
         *arguments.softcap);
  if (!arguments.rows && !lists) return check_call(arguments, shape_, by_item_, list_memory);
  // A table's rows are found by the item's place on the device.
  if (by_length_ || (by_item_ && !(table_ && lists)))
    fail(ErrorKind::invalid_argument, "attention: {} with a mask that depends on {}; accepted: {}",
         arguments.rows                ? "rows"
         : arguments.device_kv_lengths ? "device_kv_lengths"
                                       : "device_lengths",
         by_length_ ? "length" : "the batch index", arguments.rows ? "cu_q and cu_kv" : "lengths of the host");
  if (lists) return check_listed_call(arguments, *lists, shape_, list_memory);
  return check_rows_call(arguments, shape_, device_.backend->memory == nullptr, list_memory);
}

CallPlans::Plan CallPlans::make(const Lengths& lengths, const Plan& base, std::int64_t batch) {
  AttentionShape extent = shape_;
  std::tie(extent.queries, extent.keys) = lengths;
  extent.batch = batch;
  extent.tree_queries = std::min(extent.tree_queries, extent.queries);
  auto made = std::make_shared<const Planned>(
      by_length_ ? plan_attention(beginning_of(mask_, extent.keys), extent, device_,
                                  base == in_place_ ? base->choice.kernel->name : kernel_)
                 : replan(mask_, extent, device_, base->choice, shape_.queries));
  ++plans_made_;
  return made;
}

std::size_t CallPlans::workspace_bytes() {
  const std::lock_guard lock(mutex_);
  std::size_t most =
      std::max(workspace_bytes_of(*planned_, shape_, device_), workspace_bytes_of(*plain_, shape_, device_));
  for (const Plan& plan : {in_place_, few_, one_})
    if (plan) most = std::max(most, workspace_bytes_of(*plan, shape_, device_));
  others_.for_each([&](const Planned& plan) { most = std::max(most, workspace_bytes_of(plan, shape_, device_)); });
  return most;
}

}  // namespace stof
