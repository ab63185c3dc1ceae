// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <system_error>
#include <utility>

#include "cli/messages.h"

namespace stof::cli {
namespace {

constexpr std::int64_t kWidth = 40;

}  // namespace

Progress::Progress(std::string what, std::int64_t total, Clock::duration between_lines)
    : what_(std::move(what)),
      total_(total),
      terminal_(isatty(STDERR_FILENO) == 1),
      between_lines_(between_lines),
      begin_(Clock::now()),
      told_(begin_) {
  if (terminal_) draw();
  if (terminal_ || between_lines_ == Clock::duration::zero()) return;
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { tell(stop); });
  } catch (const std::system_error&) {  // where there is no room for a thread the work goes on all the same
  }
}

Progress::~Progress() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  if (!terminal_) {
    if (!told_once_) return;
    draw();
  }
  if (total_ != kUnknown) std::fputc('\n', stderr);
}

void Progress::advance(std::int64_t by) {
  const std::lock_guard lock(mutex_);
  done_ = std::min(done_ + by, total_);
  show();
}

void Progress::set(std::int64_t done, std::int64_t total) {
  const std::lock_guard lock(mutex_);
  done_ = done;
  total_ = total;
  show();
}

void Progress::show() {
  if (terminal_) return draw();
  if (Clock::now() - told_ >= between_lines_ && done_ != total_) draw_line();
}

void Progress::tell(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    changed_.wait_until(lock, stop, told_ + between_lines_, [] { return false; });
    if (!stop.stop_requested() && Clock::now() - told_ >= between_lines_) draw_line();
  }
}

void Progress::draw_line() {
  told_ = Clock::now();
  if (total_ == kUnknown) return;
  told_once_ = true;
  draw();
  std::fputc('\n', stderr);
}

void Progress::draw() const {
  if (total_ == kUnknown) return;
  const auto filled = static_cast<std::size_t>(total_ == 0 ? kWidth : kWidth * done_ / total_);
  const std::chrono::duration<double> elapsed = Clock::now() - begin_;
  if (terminal_) std::fputc('\r', stderr);
  say(fmt::format("{} [{:<{}}] {}/{}  {:.1f} s", what_, std::string(filled, '#'), kWidth, done_, total_,
                  elapsed.count()));
  std::fflush(stderr);
}

}  // namespace stof::cli
