// SPDX-License-Identifier: Apache-2.0
// A progress bar on stderr: redrawn in place on a terminal; elsewhere a line every half minute, however long a step
// takes, and one at the end.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace stof::cli {

class Progress {
 public:
  static constexpr std::int64_t kUnknown = -1;  // nothing is drawn until set() says more

  // between_lines: of those that stay.
  Progress(std::string what, std::int64_t total,
           std::chrono::steady_clock::duration between_lines = std::chrono::seconds(30));
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // ends the line

  void advance(std::int64_t by);
  // Where the total is found out on the way.
  void set(std::int64_t done, std::int64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  void show();
  void tell(const std::stop_token& stop);
  void draw_line();
  void draw() const;

  std::string what_;
  std::int64_t total_, done_ = 0;
  bool terminal_;
  Clock::duration between_lines_;
  Clock::time_point begin_, told_;  // told_: of the last line
  bool told_once_ = false;          // where lines stay, what is over before the first one has none
  std::mutex mutex_;                // guards total_, done_, told_ and told_once_
  std::condition_variable_any changed_;
  std::jthread thread_;  // says that a step is not over yet, where lines stay
};

}  // namespace stof::cli
