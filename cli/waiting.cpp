// SPDX-License-Identifier: Apache-2.0
#include "cli/waiting.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <system_error>
#include <utility>

#include "cli/messages.h"

namespace stof::cli {

Waiting::Waiting(std::string what, Duration moment, Duration between_lines)
    : what_(std::move(what)),
      terminal_(isatty(STDERR_FILENO) == 1),
      moment_(moment),
      between_lines_(terminal_ ? std::chrono::seconds(1) : between_lines),
      begin_(std::chrono::steady_clock::now()) {
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { tell(stop); });
  } catch (const std::system_error&) {  // where there is no room for a thread the work goes on all the same
  }
}

Waiting::~Waiting() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  if (terminal_ && told_) std::fputc('\n', stderr);
}

void Waiting::next(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
  if (told_) draw();
}

void Waiting::tell(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  for (Duration until_then = moment_;; until_then = between_lines_) {
    changed_.wait_for(lock, stop, until_then, [] { return false; });
    if (stop.stop_requested()) return;
    told_ = true;
    draw();
  }
}

void Waiting::draw() const {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_;
  const std::string line = fmt::format("{}  {:.0f} s", what_, elapsed.count());
  if (terminal_) std::fputc('\r', stderr);  // say() would show it
  say(terminal_ ? fmt::format("{:<72}", line) : line + "\n");
  std::fflush(stderr);
}

}  // namespace stof::cli
