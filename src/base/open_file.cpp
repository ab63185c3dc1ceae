// SPDX-License-Identifier: Apache-2.0
#include "src/base/open_file.h"

#include <fcntl.h>

#include <cerrno>

namespace stof {

int open_to_read(const std::filesystem::path& path) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC;
  const int descriptor = open(path.c_str(), kFlags | O_NONBLOCK);
  // Which no pipe answers, only a file with a lease: it has just been asked for.
  return descriptor < 0 && errno == EWOULDBLOCK ? open(path.c_str(), kFlags) : descriptor;
}

}  // namespace stof
