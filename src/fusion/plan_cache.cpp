// SPDX-License-Identifier: Apache-2.0
#include "src/fusion/plan_cache.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/atomic_file.h"
#include "src/base/env.h"
#include "src/base/error.h"
#include "src/base/whole_file.h"

namespace stof {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kEnding = ".plan";
constexpr std::uintmax_t kMostBytes = std::uintmax_t{1} << 20;  // of a plan: those of BERT-large have 10 KB

// Behind the key what is asked, so that who looks for other answers opens no other file.
std::string asked_part(const PlanKey& key) { return fmt::format("-{}{}", key.question().hex(), kEnding); }
std::string file_name_of(const PlanKey& key) { return key.fingerprint().hex() + asked_part(key); }

PlanEntry read(const fs::path& path) {
  const std::string stem = path.stem().string();
  PlanEntry entry{.name = stem.substr(0, stem.find('-')), .path = path, .plan = {}, .problem = {}};
  const std::optional<std::string> text = read_whole_file(path, kMostBytes);
  try {
    if (!text) fail(ErrorKind::bad_file, "cannot be read; accepted: a regular file of at most {} bytes", kMostBytes);
    entry.plan = plan_from_json(*text, path.filename().string());
    if (file_name_of(entry.plan->key) != path.filename()) {
      entry.plan.reset();
      entry.problem = "its name is not that of its key";
    }
  } catch (const Error& error) {
    entry.problem = error.what();
  }
  return entry;
}

}  // namespace

fs::path plan_folder() { return cache_folder() / "plans"; }

void PlanCache::say(std::string_view message) const {
  if (options_.log) options_.log(message);
}

std::optional<FusionPlan> PlanCache::find(const PlanKey& key) const {
  if (options_.folder.empty()) return std::nullopt;
  const fs::path path = options_.folder / file_name_of(key);
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  PlanEntry entry = read(path);
  if (!entry.plan) say(fmt::format("plans: '{}' is not used: {}", path.string(), entry.problem));
  return std::move(entry.plan);
}

bool PlanCache::has_answers(const PlanKey& key) const { return !paths_ending(asked_part(key)).empty(); }

std::optional<std::string> PlanCache::near_miss(const PlanKey& key) const {
  std::optional<std::string> said;
  for (const PlanEntry& entry : entries_ending(asked_part(key))) {
    if (entry.path.filename() == file_name_of(key)) continue;  // find() has said what is wrong with it
    const std::string why_not = entry.plan ? difference(entry.plan->key, key) : entry.problem;
    PlanKey with_weights = key;
    if (entry.plan) with_weights.weights = entry.plan->key.weights;
    const bool is_of_here = entry.plan && entry.plan->key == with_weights;
    if (!said || is_of_here) said = fmt::format("plan {} is not used: {}", entry.name.substr(0, 8), why_not);
    if (is_of_here) break;
  }
  return said;
}

void PlanCache::keep(const FusionPlan& plan) const {
  const fs::path path = options_.folder / file_name_of(plan.key);
  const std::string text = to_json(plan).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  if (text.size() > kMostBytes)
    fail(ErrorKind::unsupported, "a plan of {} bytes; accepted: at most {}", text.size(), kMostBytes);
  std::error_code failed;
  fs::create_directories(options_.folder, failed);
  if (failed) fail(ErrorKind::bad_file, "cannot make folder '{}': {}", options_.folder.string(), failed.message());
  AtomicFile file(path, TakenName::replaced);
  file.append(text);
  file.commit();
  evict(path);
}

bool PlanCache::publish(const FusionPlan& plan) const {
  if (options_.folder.empty()) return false;
  try {
    keep(plan);
    return true;
  } catch (const Error& error) {
    say(fmt::format("plans: {}; the plan is not kept", error.what()));
    return false;
  }
}

std::vector<PlanEntry> PlanCache::entries() const { return entries_ending(kEnding); }

std::vector<fs::path> PlanCache::paths_ending(std::string_view ending) const {
  std::vector<fs::path> all;
  if (options_.folder.empty()) return all;
  std::error_code gone;
  for (fs::directory_iterator it(options_.folder, gone), end; !gone && it != end; it.increment(gone))
    if (it->path().filename().string().ends_with(ending)) all.push_back(it->path());
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<PlanEntry> PlanCache::entries_ending(std::string_view ending) const {
  std::vector<PlanEntry> all;
  for (const fs::path& path : paths_ending(ending)) all.push_back(read(path));
  return all;
}

PlanEntry PlanCache::entry(const std::string& name) const {
  std::vector<PlanEntry> found;
  for (PlanEntry& entry : entries())
    if (entry.name.starts_with(name)) found.push_back(std::move(entry));
  if (found.size() != 1)
    fail(ErrorKind::invalid_argument, "{} plans in '{}' begin with '{}'; accepted: one ('stof plans list' names them)",
         found.size(), options_.folder.string(), name);
  return std::move(found.front());
}

void PlanCache::evict(const fs::path& keep) const {
  remove_abandoned_parts(options_.folder);
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  std::error_code gone;
  for (fs::directory_iterator it(options_.folder, gone), end; !gone && it != end; it.increment(gone)) {
    std::error_code failed;
    const auto written = it->last_write_time(failed);
    if (!failed && it->path().extension() == kEnding && it->path() != keep) files.emplace_back(written, it->path());
  }
  if (files.size() < options_.most_plans) return;
  std::sort(files.begin(), files.end());
  files.resize(files.size() + 1 - options_.most_plans);
  for (const auto& [written, path] : files) fs::remove(path, gone);
}

}  // namespace stof
