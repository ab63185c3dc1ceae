// SPDX-License-Identifier: Apache-2.0
#include "src/fusion/time_log.h"

#include <ctime>
#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/base/hash.h"

namespace stof {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

// A line of the log, or nothing where it is none of this scope.
struct Line {
  std::string work, setting;
  LoggedTime time;
};
std::optional<Line> parsed(const std::string& text, const std::string& scope, bool& damaged) {
  const Json json = Json::parse(text, nullptr, false);
  damaged = true;
  if (!json.is_object()) return std::nullopt;
  try {
    damaged = false;
    if (json.at("scope").get<std::string>() != scope) return std::nullopt;
    return Line{json.at("work").get<std::string>(),
                json.at("setting").get<std::string>(),
                {.us = json.at("us").get<double>(),
                 .spread = json.at("spread").get<double>(),
                 .error = json.at("error").get<double>(),
                 .runs = json.at("runs").get<int>(),
                 .wrong = json.at("wrong").get<std::string>(),
                 .when = json.at("when").get<std::string>()}};
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

TimeLog::TimeLog(const fs::path& folder, const std::string& scope, Log log) : scope_(scope), log_(std::move(log)) {
  if (folder.empty()) return;
  path_ = folder / (fingerprint_of(scope).hex() + ".times");
  read();
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
  if (log_) log_(message);
}

void TimeLog::read() {
  for (const std::string& text : whole_lines(path_)) {
    if (text.empty()) continue;
    bool damaged = false;
    const std::optional<Line> line = parsed(text, scope_, damaged);
    skipped_ += damaged ? 1 : 0;
    if (line)
      times_.try_emplace({line->work, line->setting}, line->time);  // the first holds, as it did when it was new
  }
  if (skipped_ > 0)
    say(fmt::format("times: {} lines of '{}' are damaged and are measured again", skipped_, path_.string()));
}

const LoggedTime* TimeLog::find(const std::string& work, const std::string& setting) const {
  const auto found = times_.find({work, setting});
  return found == times_.end() ? nullptr : &found->second;
}

void TimeLog::add_unkept(const std::string& work, const std::string& setting, const LoggedTime& time) {
  times_.try_emplace({work, setting}, time);
}

void TimeLog::add(const std::string& work, const std::string& setting, const LoggedTime& time) {
  add_unkept(work, setting, time);
  if (!file_) return;
  const Json json{{"scope", scope_},     {"work", work},          {"setting", setting},
                  {"us", time.us},       {"spread", time.spread}, {"runs", time.runs},
                  {"error", time.error}, {"wrong", time.wrong},   {"when", time.when}};
  try {
    file_->add(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  } catch (const Error& error) {
    say(fmt::format("times: {}; what is measured from now on is used and not kept", error.what()));
    file_.reset();
  }
}

}  // namespace stof
