// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
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
}

Progress::~Progress() {
  if (!terminal_) draw();
  if (total_ != kUnknown) std::fputc('\n', stderr);
}

void Progress::advance(std::int64_t by) {
  done_ = std::min(done_ + by, total_);
  show();
}

void Progress::set(std::int64_t done, std::int64_t total) {
  done_ = done;
  total_ = total;
  show();
}

void Progress::show() {
  if (terminal_) return draw();
  const Clock::time_point now = Clock::now();
  if (now - told_ < between_lines_ || total_ == kUnknown || done_ == total_) return;
  told_ = now;
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
