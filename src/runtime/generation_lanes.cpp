// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/generation_lanes.h"

#include <algorithm>
#include <utility>

namespace stof {

GenerationLane::GenerationLane(GenerationLanes& lanes) : lanes_(lanes), side_(lanes.device_) {}

GenerationLane::~GenerationLane() {
  try {
    side_.wait();           // what it works on goes before the stream does
  } catch (const Error&) {  // the call that put the work there has said it
  }
  lanes_.held_ -= keys_.bytes() + activations_.bytes();
}

void GenerationLane::reserve(GrowingMemory& memory, std::int64_t bytes, bool zeroed) {
  const std::int64_t before = memory.bytes();
  const auto allocate = [&](std::size_t size) {
    const auto count = static_cast<std::int64_t>(size);
    return zeroed ? side_.memory(count) : side_.unset_memory(count);
  };
  try {
    memory.reserve(bytes, [&](std::size_t size) { return lanes_.with_room([&] { return allocate(size); }); });
  } catch (...) {  // nothing is held now
    lanes_.held_ -= before;
    throw;
  }
  lanes_.held_ += memory.bytes() - before;
}

void GenerationLane::reserve_keys(std::int64_t bytes) { reserve(keys_, bytes, false); }
void GenerationLane::reserve_activations(std::int64_t bytes) { reserve(activations_, bytes, true); }

void GenerationLane::reserve_picked(std::int64_t texts) {
  const std::int64_t bytes = texts * static_cast<std::int64_t>(sizeof(std::int32_t));
  picked_.reserve(bytes, [this](std::size_t size) { return side_.memory(static_cast<std::int64_t>(size)); });
  host_picked_.reserve(bytes, [this](std::size_t size) { return side_.host_memory(static_cast<std::int64_t>(size)); });
}

const std::int32_t* GenerationLane::pick(const RowShape& shape, const void* scores) {
  lanes_.device_.backend->rows.highest(shape, scores, reinterpret_cast<std::int32_t*>(picked_.data()));
  side_.bring_back(host_picked_.data(), picked_.data(), shape.rows * static_cast<std::int64_t>(sizeof(std::int32_t)));
  return reinterpret_cast<const std::int32_t*>(host_picked_.data());
}

RecordedStep& GenerationLane::step(const StepKind& kind, bool& is_new) {
  const std::array<std::int64_t, 4> now{keys_.bytes(), activations_.bytes(), picked_.bytes(), side_.number_bytes()};
  if (std::exchange(recorded_with_, now) != now) steps_.clear();
  if (steps_.size() >= kMostSteps && !steps_.contains(kind))
    steps_.erase(std::ranges::min_element(steps_, {}, [](const auto& known) { return known.second.used; }));
  const auto [found, added] = steps_.try_emplace(kind);
  is_new = added;
  found->second.used = ++now_;
  return found->second;
}

GenerationLanes::Lease GenerationLanes::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!waiting_.empty()) {
      std::unique_ptr<GenerationLane> lane = std::move(waiting_.back());
      waiting_.pop_back();
      return {*this, std::move(lane)};
    }
  }
  return {*this, with_room([this] { return std::make_unique<GenerationLane>(*this); })};
}

void GenerationLanes::Lease::keep() {
  if (!lane_->side().records()) return;
  const std::lock_guard lock(lanes_.mutex_);
  lanes_.waiting_.push_back(std::move(lane_));
}

bool GenerationLanes::drop_waiting() {
  std::vector<std::unique_ptr<GenerationLane>> dropped;
  const std::lock_guard lock(mutex_);
  dropped.swap(waiting_);
  const bool some = !dropped.empty();
  dropped.clear();  // before others are told
  return some;
}

bool GenerationLanes::make_room() {
  const bool some = drop_waiting();
  return (others_ && others_()) || some;
}

}  // namespace stof
