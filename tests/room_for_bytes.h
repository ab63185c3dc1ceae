// SPDX-License-Identifier: Apache-2.0
// A disk that is full, for this process alone.
#pragma once
#include <sys/resource.h>

#include <csignal>

namespace stof {

// While it lives no file grows past so many bytes: writing stops there, and what is written next fails.
class RoomForBytes {
 public:
  explicit RoomForBytes(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit room{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &room);
  }
  ~RoomForBytes() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  RoomForBytes(const RoomForBytes&) = delete;
  RoomForBytes& operator=(const RoomForBytes&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

}  // namespace stof
