// SPDX-License-Identifier: Apache-2.0
// A progress bar on stderr: redrawn in place on a terminal, one line at the end elsewhere.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace stof::cli {

class Progress {
 public:
  static constexpr std::int64_t kUnknown = -1;  // nothing is drawn until set() says more

  Progress(std::string what, std::int64_t total);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // ends the line

  void advance(std::int64_t by);
  // Where the total is found out on the way.
  void set(std::int64_t done, std::int64_t total);

 private:
  void draw() const;

  std::string what_;
  std::int64_t total_, done_ = 0;
  bool terminal_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace stof::cli
