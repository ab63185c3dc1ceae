// SPDX-License-Identifier: Apache-2.0
// Every time that was ever measured here: (device, call, work, setting) -> microseconds, a line each, read back by
// every later search. A line is in the file as soon as it was measured.
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

class TimeLog {
 public:
  // `scope`: all that a time depends on besides work and setting, as text. An empty folder keeps nothing on disk; a
  // folder that cannot be written is said to `log` and keeps nothing either.
  TimeLog(const std::filesystem::path& folder, const std::string& scope, Log log);

  const LoggedTime* find(const std::string& work, const std::string& setting) const;
  void add(const std::string& work, const std::string& setting, const LoggedTime& time);
  // As long as this log lives.
  void add_unkept(const std::string& work, const std::string& setting, const LoggedTime& time);

  std::size_t size() const { return times_.size(); }
  std::size_t skipped() const { return skipped_; }  // lines that could not be read
  const std::filesystem::path& path() const { return path_; }

 private:
  void read();
  void say(std::string_view message) const;

  std::filesystem::path path_;
  std::string scope_;
  Log log_;
  std::map<std::pair<std::string, std::string>, LoggedTime> times_;
  std::size_t skipped_ = 0;
  std::unique_ptr<AppendFile> file_;
};

// "2026-11-21T20:50:00Z"
std::string now_utc();

}  // namespace stof
