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

Progress::Progress(std::string what, std::int64_t total)
    : what_(std::move(what)),
      total_(total),
      terminal_(isatty(STDERR_FILENO) == 1),
      begin_(std::chrono::steady_clock::now()) {
  if (terminal_) draw();
}

Progress::~Progress() {
  if (!terminal_) draw();
  if (total_ != kUnknown) std::fputc('\n', stderr);
}

void Progress::advance(std::int64_t by) {
  done_ = std::min(done_ + by, total_);
  if (terminal_) draw();
}

void Progress::set(std::int64_t done, std::int64_t total) {
  done_ = done;
  total_ = total;
  if (terminal_) draw();
}

void Progress::draw() const {
  if (total_ == kUnknown) return;
  const auto filled = static_cast<std::size_t>(total_ == 0 ? kWidth : kWidth * done_ / total_);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_;
  if (terminal_) std::fputc('\r', stderr);
  say(fmt::format("{} [{:<{}}] {}/{}  {:.1f} s", what_, std::string(filled, '#'), kWidth, done_, total_,
                  elapsed.count()));
  std::fflush(stderr);
}

}  // namespace stof::cli
