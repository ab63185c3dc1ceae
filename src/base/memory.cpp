// SPDX-License-Identifier: Apache-2.0
#include "src/base/memory.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "src/base/error.h"

namespace stof {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

std::uint64_t machine_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGE_SIZE);
  return pages > 0 && bytes > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(bytes) : kUnlimited;
}

// The limits of the group and of every group around it hold. A line of version 2 is "0::/path".
std::uint64_t group_limit() {
  std::ifstream groups("/proc/self/cgroup");
  std::uint64_t least = kUnlimited;
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::/")) continue;
    const fs::path root = "/sys/fs/cgroup";
    for (fs::path folder = line.substr(4);; folder = folder.parent_path()) {
      std::uint64_t limit = 0;
      if (std::ifstream file(root / folder / "memory.max"); file >> limit) least = std::min(least, limit);
      if (folder.empty()) break;
    }
  }
  return least;
}

}  // namespace

std::uint64_t memory_limit() {
  static const std::uint64_t limit = std::min(machine_memory(), group_limit());
  return limit;
}

void check_memory(std::string_view what, double bytes) {
  if (bytes > static_cast<double>(memory_limit()))
    fail(ErrorKind::device, "{}: {:.3g} bytes; accepted: at most {}, the memory of this machine", what, bytes,
         memory_limit());
}

}  // namespace stof
