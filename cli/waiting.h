// SPDX-License-Identifier: Apache-2.0
// Says on stderr what a command is doing whose end nobody can foretell, once it has taken a moment: on a terminal with
// the time, in place; elsewhere one line, and another every half minute.
#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace stof::cli {

class Waiting {
 public:
  using Duration = std::chrono::steady_clock::duration;

  // moment: before anything is said. between_lines: of those that stay.
  explicit Waiting(std::string what, Duration moment = std::chrono::seconds(2),
                   Duration between_lines = std::chrono::seconds(30));
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting();  // ends the line

  // What is done from now on.
  void next(std::string what);

 private:
  void tell(const std::stop_token& stop);
  void draw() const;

  std::string what_;
  const bool terminal_;
  const Duration moment_, between_lines_;
  const std::chrono::steady_clock::time_point begin_;
  bool told_ = false;
  std::mutex mutex_;  // guards what_ and told_
  std::condition_variable_any changed_;
  std::jthread thread_;
};

}  // namespace stof::cli
