// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/recordings.h"

#include <algorithm>
#include <utility>

namespace stof {

const Recording* Recordings::find(const CallKind& kind) {
  const auto found = kept_.find(kind);
  if (found == kept_.end()) return nullptr;
  found->second.used = ++now_;
  return &found->second.recording;
}

bool Recordings::is_worth_it(const CallKind& kind) {
  if (const auto refused = refused_.find(kind); refused != refused_.end()) {
    refused->second = ++now_;
    return false;
  }
  if (kind.lengths.empty() || seen_.erase(kind) > 0) return true;
  note(seen_, kind);
  return false;
}

void Recordings::note(Times& times, const CallKind& kind) {
  if (times.size() >= kMostSeen)
    times.erase(
        std::min_element(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.second < b.second; }));
  times.emplace(kind, ++now_);
}

void Recordings::keep(const CallKind& kind, Recording recording) {
  if (recording.plans.size() > kMostPlans) return refuse(kind);
  while (kept_.size() >= kMost || (!kept_.empty() && plans() + recording.plans.size() > kMostPlans)) drop_oldest();
  kept_.insert_or_assign(kind, Kept{std::move(recording), ++now_});
}

std::size_t Recordings::plans() const {
  std::size_t sum = 0;
  for (const auto& [kind, kept] : kept_) sum += kept.recording.plans.size();
  return sum;
}

void Recordings::drop_oldest() {
  kept_.erase(std::min_element(kept_.begin(), kept_.end(),
                               [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
}

}  // namespace stof
