// SPDX-License-Identifier: Apache-2.0
// Every time that was ever measured here: (device, call, work, setting) -> microseconds, a line each, read back by
// every later search. A line is in the file as soon as it was measured. Times hold for any weights; whether a result is
// right was found out with those of one model, and holds for them alone.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "src/base/append_file.h"
#include "src/codegen/kernel_cache.h"

namespace stof {

struct LoggedTime {
  double us = 0, spread = 0, error = 0;
  int runs = 0;
  std::string wrong = {};  // why the setting must not be used; empty: it may
  std::string when = {};   // UTC
};

struct LogLine {
  std::string work, setting, weights;
  LoggedTime time;
  bool again = false;  // in place of what earlier lines say
};

struct TimeLogOptions {
  std::filesystem::path folder = {};  // empty: nothing is kept on disk
  std::string scope = {};             // all that a time depends on besides work and setting
  std::string weights = {};           // fingerprint of those that results are compared with
  bool again = false;                 // nothing is found but what is added now, which later readers take for the older
  Log log = {};
};

class TimeLog {
 public:
  // A folder that cannot be written is said to the log and keeps nothing.
  explicit TimeLog(TimeLogOptions options);

  // What was found with these weights.
  const LoggedTime* find(const std::string& work, const std::string& setting) const;
  // The time of what was right with others and was not compared with these.
  const LoggedTime* find_of_others(const std::string& work, const std::string& setting) const;
  void add(const std::string& work, const std::string& setting, const LoggedTime& time);
  // As long as this log lives.
  void add_unkept(const std::string& work, const std::string& setting, const LoggedTime& time);

  std::size_t size() const { return times_.size(); }
  std::size_t skipped() const { return skipped_; }  // lines that could not be read
  const std::filesystem::path& path() const { return path_; }

 private:
  struct Known {
    LoggedTime time;
    bool is_compared = false;  // with these weights
  };
  bool is_too_large() const;
  void read();
  void take(const LogLine& line);
  const Known* known(const std::string& work, const std::string& setting) const;
  void say(std::string_view message) const;

  TimeLogOptions options_;
  std::filesystem::path path_;
  std::map<std::pair<std::string, std::string>, Known> times_;
  std::size_t skipped_ = 0;
  std::unique_ptr<AppendFile> file_;
};

// "2026-11-21T20:50:00Z"
std::string now_utc();

}  // namespace stof
