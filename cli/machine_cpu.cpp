// SPDX-License-Identifier: Apache-2.0
// The processor and its memory, from /proc, Highway and the compiler's cpuid wrappers; and the cache folder.
#include <hwy/targets.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "cli/machine.h"
#include "src/base/env.h"
#include "src/base/matrix_registers.h"

namespace stof::cli {
namespace {

std::string after_colon(const std::string& line) {
  const std::size_t colon = line.find(": ");
  return colon == std::string::npos ? "" : line.substr(colon + 2);
}

void read_cpuinfo(CpuFacts& facts) {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::set<std::pair<std::string, std::string>> cores;  // (package, core of the package)
  std::string package;
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.starts_with("model name")) facts.name = after_colon(line);
    if (line.starts_with("physical id")) package = after_colon(line);
    if (line.starts_with("core id")) cores.emplace(package, after_colon(line));
  }
  facts.cores = static_cast<int>(cores.size());
}

void read_meminfo(CpuFacts& facts) {
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);) {
    std::istringstream words(line);
    std::string key;
    std::uint64_t kilobytes = 0;
    words >> key >> kilobytes;
    if (key == "MemTotal:") facts.memory_bytes = kilobytes * 1024;
    if (key == "MemAvailable:") facts.available_bytes = kilobytes * 1024;
  }
}

bool has_bf16_dot() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

// Tried: what may be done by its permissions a file system may still refuse. Nothing of it stays.
bool takes_folders(const std::filesystem::path& folder) {
  std::string draft = folder / ".stof-XXXXXX";
  return mkdtemp(draft.data()) != nullptr && rmdir(draft.c_str()) == 0;
}

}  // namespace

CpuFacts probe_cpu() {
  CpuFacts facts;
  read_cpuinfo(facts);
  read_meminfo(facts);
  facts.threads = static_cast<int>(std::thread::hardware_concurrency());
  const auto emulated = HWY_EMU128 | HWY_SCALAR;
  for (auto left = hwy::SupportedTargets() & ~emulated; left != 0; left &= left - 1)  // a lower bit is a better target
    facts.instruction_sets.emplace_back(hwy::TargetName(left & -left));
  facts.bf16_dot = has_bf16_dot();
  facts.bf16_matrix = may_use_matrix_registers();
  return facts;
}

CacheFacts probe_cache() {
  CacheFacts facts{.folder = cache_folder_as_it_is()};
  std::filesystem::path nearest = facts.folder;
  std::error_code ignored;
  while (nearest.has_relative_path() && !std::filesystem::exists(nearest, ignored)) nearest = nearest.parent_path();
  facts.writable = takes_folders(nearest);
  facts.problem = why_no_cache();
  facts.ignored_home = ignored_cache_home();
  return facts;
}

}  // namespace stof::cli
