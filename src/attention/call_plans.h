// SPDX-License-Identifier: Apache-2.0
// The plans of an Attention, and which of them an item of a call goes by: the first ones, those of other lengths, those
// of items of few queries, and what a table holds.
#pragma once
#include <atomic>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "src/attention/call.h"
#include "src/attention/few_queries.h"
#include "src/attention/other_plans.h"
#include "src/attention/planned.h"

namespace stof {

class CallPlans {
 public:
  using Plan = OtherPlans::Plan;

  CallPlans(const Mask& mask, const AttentionShape& shape, const Device& device, std::string kernel);
  CallPlans(const MaskTable& table, const Mask& limit, const AttentionShape& shape, const Device& device);

  void prepare(std::int64_t queries, std::int64_t keys);
  void update(const TableContents& contents);

  const AttentionShape& extent() const { return shape_; }
  const Device& where() const { return device_; }
  bool differ_by_item() const { return by_item_; }
  bool differ_by_length() const { return by_length_; }
  const Plan& first() const { return planned_; }
  // Of calls over pages whose lengths the host knows.
  const Plan& for_pages() const;
  std::int64_t made() const { return plans_made_; }  // plans so far: waits for none
  std::size_t workspace_bytes();

  // Lists that the device reads in front of the kernel: device_kv_lengths too, where the kernel does not read them.
  std::optional<DeviceLengths> lists_of(const AttentionArguments& arguments) const;
  CheckedCall check(const AttentionArguments& arguments, const std::optional<DeviceLengths>& lists,
                    std::pmr::memory_resource* list_memory) const;
  // The plan of a mask that depends on length is made for the lengths, by the host.
  void check_lengths_known(const AttentionArguments& arguments) const;

  // The plan that the call's items have, as far as their lengths do not ask for others. beside_few: those of few
  // queries have another one.
  Plan base_for(std::span<const AttentionItem> items, const AttentionArguments& arguments, bool beside_few);
  Plan plan_for(const AttentionItem& item, const Plan& base, const AttentionArguments& arguments);
  bool are_few(const AttentionItem& item) const { return few_queries_.are_of(item); }
  // Whether it is the plan of items of few queries. A launch of it may wait for nothing in front of it that has the
  // same workspace: who runs one holds `launching` from the call's first launch to its last.
  bool is_of_few(const Plan& plan);
  std::mutex launching;
  // Of a call whose items of few queries go in a launch of their own, as it is sooner or no other plan has their
  // positions. Null: they do not, or it was not prepared.
  Plan plan_of_few(std::span<const AttentionItem> items, const AttentionArguments& arguments, bool side_by_side);

  // Of a call with device_lengths, over pages or not. Who prepared for few keys has a plan for every position; of
  // others items that begin before the planned ones are wrong.
  Plan plan_of_lists(bool over_pages);
  // Its items of few queries go by the first, as far as they have no more than the second, for which was prepared.
  // Null: it was not.
  std::pair<Plan, std::int64_t> few_of_lists();

 private:
  using Lengths = OtherPlans::Lengths;
  CheckedCall check_lists(const AttentionArguments& arguments, const std::optional<DeviceLengths>& lists,
                          std::pmr::memory_resource* list_memory) const;
  Plan plan_in_place() const;
  bool stacks_in_pages() const;
  bool lengths_in_place() const { return in_place_ && in_place_->choice.kernel->reads_device_lengths; }
  const Plan& base_of(const AttentionArguments& arguments) const;
  bool serves(const Plan& plan, std::span<const AttentionItem> items) const;
  std::optional<Lengths> lengths_of(const AttentionItem& item, bool on_device) const;
  Lengths every_position() const { return {shape_.keys + shape_.queries, shape_.keys}; }
  void check_positions(const AttentionItem& item, bool planned_for) const;
  Plan plan_of_table();
  // Under the lock. Whether an item has a plan made from `base`, or may have one made.
  bool has_plan(const AttentionItem& item, const Plan& base, const AttentionArguments& arguments) const;
  void make_few();
  Plan plan_of_one() const;
  Plan plan_of(const Lengths& lengths, const Plan& base, const AttentionItem& item,
               const AttentionArguments& arguments);
  Plan make(const Lengths& lengths, const Plan& base, std::int64_t batch);
  std::int64_t batch_of(const Plan& base) const { return base == one_ ? 1 : shape_.batch; }

  Mask mask_;
  AttentionShape shape_;
  Device device_;
  std::string kernel_;
  bool by_length_, by_item_;
  std::optional<const PlannedTable> table_;
  Plan planned_;
  Plan plain_;     // the same, unless that is by residue class or a sum, which is by class, too
  Plan in_place_;  // for pages, and lengths of keys on the device, where plain is not made for them; or null
  FewQueries few_queries_{shape_, device_, kernel_};
  std::mutex mutex_;
  std::atomic<std::int64_t> plans_made_ = 1;
  Plan few_;  // at every position, of items that few_queries says; null before such are prepared
  Plan one_;  // beside it, chosen for one item, where the first one is of another kernel or form; or null
  std::int64_t prepared_few_ = 0;
  OtherPlans others_;
  Plan updated_;  // what runs of a table use; null before its first contents
};

}  // namespace stof
