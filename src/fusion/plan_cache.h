// SPDX-License-Identifier: Apache-2.0
// Plans kept on disk, a file each, found by everything that they depend on. A file appears whole or not at all; of two
// processes that tune the same model the last one's plan stays. One that is damaged counts as absent. No failure of the
// disk is an error: it is said, and costs the tuning.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "src/codegen/kernel_cache.h"
#include "src/fusion/plan.h"

namespace stof {

struct PlanCacheOptions {
  std::filesystem::path folder = {};  // empty: nothing is kept
  std::size_t most_plans = 1000;
  Log log = {};
};

struct PlanEntry {
  std::string name;  // of the key; what stands before the first '-' in the file's
  std::filesystem::path path;
  std::optional<FusionPlan> plan;
  std::string problem;  // why there is none
};

class PlanCache {
 public:
  explicit PlanCache(PlanCacheOptions options) : options_(std::move(options)) {}

  std::optional<FusionPlan> find(const PlanKey& key) const;
  // Whether there is a file for the question of the key, of whatever weights and machine: else nobody need know them.
  bool has_answers(const PlanKey& key) const;
  // Where there is no plan for the key but one for the same model, mask and call: why that one is not taken. Of several
  // one that was made on this machine is named.
  std::optional<std::string> near_miss(const PlanKey& key) const;
  // Keeps the plan; drops the oldest where there are too many. Throws what the disk has against it.
  void keep(const FusionPlan& plan) const;
  // The same for who has a use for the plan in any case: false when it could not be kept, which was said.
  bool publish(const FusionPlan& plan) const;

  // By name; the problems of what is no plan are in the entries.
  std::vector<PlanEntry> entries() const;
  // The one whose name begins so. Throws invalid_argument where there is none or several.
  PlanEntry entry(const std::string& name) const;
  const std::filesystem::path& folder() const { return options_.folder; }

 private:
  void say(std::string_view message) const;
  // Of file names, in their order.
  std::vector<std::filesystem::path> paths_ending(std::string_view ending) const;
  std::vector<PlanEntry> entries_ending(std::string_view ending) const;
  void evict(const std::filesystem::path& keep) const;

  PlanCacheOptions options_;
};

// In the cache folder of the user.
std::filesystem::path plan_folder();

}  // namespace stof
