// SPDX-License-Identifier: Apache-2.0
#include "src/fusion/time_log.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>

#include "src/base/counted.h"
#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/base/whole_file.h"
#include "src/fusion/kept_number.h"

namespace stof {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMostUs = 1e12;  // eleven days: sums of times stay finite

bool is_credible(const LoggedTime& time) {
  const auto holds = [](double value) { return std::isfinite(value) && value >= 0; };
  return holds(time.us) && time.us <= kMostUs && holds(time.spread) && holds(time.error) && time.runs >= 0;
}

// -1: no number of runs.
int runs_of(const Json& json) {
  const std::int64_t runs = json.is_number_integer() ? json.get<std::int64_t>() : -1;
  return runs > std::numeric_limits<int>::max() ? -1 : static_cast<int>(std::max<std::int64_t>(runs, -1));
}

// Nothing where it is no line of this scope.
std::optional<LogLine> parsed(const std::string& text, const std::string& scope, bool& damaged) {
  const Json json = Json::parse(text, nullptr, false);
  damaged = true;
  if (!json.is_object()) return std::nullopt;
  try {
    damaged = false;
    if (json.at("scope").get<std::string>() != scope) return std::nullopt;
    LogLine line{json.at("work").get<std::string>(),
                 json.at("setting").get<std::string>(),
                 json.at("weights").get<std::string>(),
                 {.us = json.at("us").get<double>(),
                  .spread = json.at("spread").get<double>(),
                  .error = json.at("error").get<double>(),
                  .runs = runs_of(json.at("runs")),
                  .wrong = json.at("wrong").get<std::string>(),
                  .when = json.at("when").get<std::string>()},
                 json.value("again", false)};
    damaged = !is_credible(line.time);
    return damaged ? std::nullopt : std::optional(std::move(line));
  } catch (const Json::exception&) {
    damaged = true;
    return std::nullopt;
  }
}

}  // namespace

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

TimeLog::TimeLog(TimeLogOptions options) : options_(std::move(options)) {
  const fs::path& folder = options_.folder;
  if (folder.empty()) return;
  path_ = folder / (fingerprint_of(options_.scope).hex() + ".times");
  if (is_too_large()) return;
  if (!options_.again) read();
  try {
    std::error_code failed;
    fs::create_directories(folder, failed);
    if (failed) fail(ErrorKind::bad_file, "cannot make folder '{}': {}", folder.string(), failed.message());
    file_ = std::make_unique<AppendFile>(path_);
  } catch (const Error& error) {
    say(fmt::format("times: {}; what is measured now is used and not kept", error.what()));
  }
}

void TimeLog::say(std::string_view message) const {
  if (options_.log) options_.log(message);
}

bool TimeLog::is_too_large() const {
  std::error_code absent;
  const std::uintmax_t bytes = fs::file_size(path_, absent);
  if (absent || bytes <= kMostWholeFile) return false;
  say(fmt::format("times: '{}' has {} bytes; accepted: at most {}; it is neither read nor added to until it is removed",
                  path_.string(), bytes, kMostWholeFile));
  return true;
}

void TimeLog::read() {
  for (const std::string& text : whole_lines(path_)) {
    if (text.empty()) continue;
    bool damaged = false;
    const std::optional<LogLine> line = parsed(text, options_.scope, damaged);
    skipped_ += damaged ? 1 : 0;
    if (line) take(*line);
  }
  if (skipped_ > 0)
    say(fmt::format("times: {} of '{}' left out",
                    counted(static_cast<std::int64_t>(skipped_), "damaged line", "damaged lines"), path_.string()));
}

void TimeLog::take(const LogLine& line) {
  const bool is_compared = line.weights == options_.weights;
  if (!is_compared && !line.time.wrong.empty()) return;
  const auto [place, is_new] = times_.try_emplace({line.work, line.setting}, Known{line.time, is_compared});
  if (is_new) return;
  // The first holds, as it did when it was new, but for what was measured again.
  Known& known = place->second;
  const LoggedTime& judged = is_compared && (line.again || !known.is_compared) ? line.time : known.time;
  LoggedTime time = line.again ? line.time : known.time;
  time.wrong = judged.wrong;
  time.error = judged.error;
  known = {time, known.is_compared || is_compared};
}

const TimeLog::Known* TimeLog::known(const std::string& work, const std::string& setting) const {
  const auto found = times_.find({work, setting});
  return found == times_.end() ? nullptr : &found->second;
}

const LoggedTime* TimeLog::find(const std::string& work, const std::string& setting) const {
  const Known* const found = known(work, setting);
  return found != nullptr && found->is_compared ? &found->time : nullptr;
}

const LoggedTime* TimeLog::find_of_others(const std::string& work, const std::string& setting) const {
  const Known* const found = known(work, setting);
  return found != nullptr && !found->is_compared ? &found->time : nullptr;
}

void TimeLog::add_unkept(const std::string& work, const std::string& setting, const LoggedTime& time) {
  Known& known = times_[{work, setting}];
  if (!known.is_compared) known = {time, true};
}

void TimeLog::add(const std::string& work, const std::string& setting, const LoggedTime& time) {
  add_unkept(work, setting, time);
  if (!file_) return;
  Json json{{"scope", options_.scope},    {"work", work},
            {"setting", setting},         {"weights", options_.weights},
            {"us", kept_number(time.us)}, {"spread", kept_number(time.spread)},
            {"runs", time.runs},          {"error", kept_number(time.error)},
            {"wrong", time.wrong},        {"when", time.when}};
  if (options_.again) json["again"] = true;
  try {
    file_->add(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  } catch (const Error& error) {
    say(fmt::format("times: {}; what is measured from now on is used and not kept", error.what()));
    file_.reset();
  }
}

}  // namespace stof
