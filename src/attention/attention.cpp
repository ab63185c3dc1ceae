// SPDX-License-Identifier: Apache-2.0
// Planning: measure, choose, pack, arrange (planned.cpp). Running: check, group items by plan, launch.
#include "stof/attention.h"

#include <map>
#include <mutex>
#include <utility>

#include "src/attention/call.h"
#include "src/attention/planned.h"
#include "src/base/error.h"

namespace stof {

struct Attention::State {
  using Lengths = std::pair<std::int64_t, std::int64_t>;  // queries, keys
  // A mask that depends on length has a plan for each pair of lengths; beyond so many, all are made again.
  static constexpr std::size_t kMaxPlans = 256;

  State(const Mask& the_mask, const AttentionShape& the_shape, const Device& the_device, std::string the_kernel)
      : mask(the_mask),
        shape(the_shape),
        device(the_device),
        kernel(std::move(the_kernel)),
        by_length(depends_on_length(mask)),
        by_item(depends_on_batch(mask)),
        planned(std::make_shared<const Planned>(plan_attention(mask, shape, device, kernel))) {}

  // The plan whose layout has the positions of the item.
  std::shared_ptr<const Planned> plan_for(const AttentionItem& item) {
    const std::int64_t first = item.keys - item.queries;
    if (item.keys == 0) return planned;
    if (by_length) {
      if (item.queries == shape.queries && item.keys == shape.keys) return planned;
      return other({item.queries, item.keys}, true);
    }
    if (first >= planned->positions.begin) return planned;
    // Decoding an item shorter than planned, for one: a layout over every position that could come.
    return other({first < 0 ? shape.keys + shape.queries : shape.keys, shape.keys}, false);
  }

  std::shared_ptr<const Planned> other(const Lengths& lengths, bool choose_again) {
    const std::lock_guard lock(mutex);
    if (const auto found = others.find(lengths); found != others.end()) return found->second;
    AttentionShape extent = shape;
    std::tie(extent.queries, extent.keys) = lengths;
    auto made = std::make_shared<const Planned>(choose_again ? plan_attention(mask, extent, device, kernel)
                                                             : replan(mask, extent, device, planned->choice));
    if (others.size() >= kMaxPlans) others.clear();
    ++plans_made;
    others.emplace(lengths, made);
    return made;
  }

  Mask mask;
  AttentionShape shape;
  Device device;
  std::string kernel;
  bool by_length, by_item;
  std::shared_ptr<const Planned> planned;
  std::mutex mutex;
  std::int64_t plans_made = 1;
  std::map<Lengths, std::shared_ptr<const Planned>> others;
};

Attention::Attention(const Mask& mask, const AttentionShape& shape, const Device& device,
                     const AttentionOptions& options)
    : state_(std::make_unique<State>(mask, shape, device, options.kernel)) {}
Attention::~Attention() = default;
Attention::Attention(Attention&&) noexcept = default;
Attention& Attention::operator=(Attention&&) noexcept = default;

const AttentionPlan& Attention::plan() const { return state_->planned->choice.plan; }

std::int64_t Attention::plans_made() const {
  const std::lock_guard lock(state_->mutex);
  return state_->plans_made;
}

void Attention::run(const AttentionArguments& arguments) const {
  const CheckedCall checked = check_call(arguments, state_->shape, state_->by_item);
  std::map<std::shared_ptr<const Planned>, std::vector<AttentionItem>> groups;
  for (const AttentionItem& item : checked.items) groups[state_->plan_for(item)].push_back(item);
  for (const auto& [planned, items] : groups) {
    AttentionCall call = checked.call;
    call.items = items;
    planned->choice.kernel->run(planned->choice.plan, planned->arranged, call, state_->device);
  }
}

}  // namespace stof
