// SPDX-License-Identifier: Apache-2.0
#include "src/base/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

namespace stof {

int open_to_read(const std::filesystem::path& path) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC;
  const int descriptor = open(path.c_str(), kFlags | O_NONBLOCK);
  // Which no pipe answers, only a file with a lease: it has just been asked for.
  return descriptor < 0 && errno == EWOULDBLOCK ? open(path.c_str(), kFlags) : descriptor;
}

std::string_view kind_of_file(mode_t mode) {
  if (S_ISDIR(mode)) return "it is a folder";
  if (S_ISFIFO(mode)) return "it is a pipe";
  if (S_ISSOCK(mode)) return "it is a socket";
  return S_ISREG(mode) ? "it is a regular file" : "it is a device";
}

}  // namespace stof
