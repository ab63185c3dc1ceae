// SPDX-License-Identifier: Apache-2.0
#include "src/base/env.h"

#include <cstdlib>

namespace stof {
namespace {

std::filesystem::path folder_of(const char* name) {
  const char* value = std::getenv(name);
  const std::filesystem::path folder = value ? value : "";
  return folder.is_absolute() ? folder : std::filesystem::path{};
}

}  // namespace

std::filesystem::path cache_folder() {
  if (const auto cache = folder_of("XDG_CACHE_HOME"); !cache.empty()) return cache / "stof";
  if (const auto home = folder_of("HOME"); !home.empty()) return home / ".cache" / "stof";
  std::error_code none;  // TMPDIR names no folder
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(none);
  return (none ? "/tmp" : temporary) / "stof";
}

bool names_threads() { return std::getenv("OMP_NUM_THREADS") != nullptr; }

}  // namespace stof
