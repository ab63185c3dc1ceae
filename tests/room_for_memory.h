// SPDX-License-Identifier: Apache-2.0
// A machine whose memory is nearly used up, for this process alone.
#pragma once
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace stof {

// While it lives the process has addresses for so many bytes more than it has now: what asks for more is refused. Not
// beside a sanitizer, which wants addresses of its own.
class RoomForMemory {
 public:
  explicit RoomForMemory(rlim_t bytes) {
    getrlimit(RLIMIT_AS, &before_);
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit room{.rlim_cur = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + bytes,
                      .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_AS, &room);
  }
  ~RoomForMemory() { setrlimit(RLIMIT_AS, &before_); }
  RoomForMemory(const RoomForMemory&) = delete;
  RoomForMemory& operator=(const RoomForMemory&) = delete;

 private:
  rlimit before_{};
};

}  // namespace stof
