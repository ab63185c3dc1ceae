// SPDX-License-Identifier: Apache-2.0
#include "src/base/env.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace stof {
namespace {

std::filesystem::path folder_of(const char* name) {
  const char* value = std::getenv(name);
  const std::filesystem::path folder = value ? value : "";
  return folder.is_absolute() ? folder : std::filesystem::path{};
}

std::filesystem::path named_cache_folder() {
  if (const auto cache = folder_of("XDG_CACHE_HOME"); !cache.empty()) return cache / "stof";
  if (const auto home = folder_of("HOME"); !home.empty()) return home / ".cache" / "stof";
  return {};
}

// Everybody may have made a folder of this name first.
std::filesystem::path temporary_cache_folder() {
  std::error_code none;  // TMPDIR names no folder
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(none);
  return (none ? "/tmp" : temporary) / fmt::format("stof-{}", geteuid());
}

bool is_ours_alone(const std::filesystem::path& folder) {
  struct stat found {};  // of a link, of the link
  return lstat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid() &&
         (found.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool is_missing(const std::filesystem::path& folder) {
  struct stat found {};
  return lstat(folder.c_str(), &found) != 0 && errno == ENOENT;
}

}  // namespace

std::filesystem::path cache_folder() {
  if (auto named = named_cache_folder(); !named.empty()) return named;
  const std::filesystem::path folder = temporary_cache_folder();
  mkdir(folder.c_str(), S_IRWXU);  // what is there already is looked at
  return is_ours_alone(folder) ? folder : "/dev/null" / folder.filename();
}

std::filesystem::path cache_folder_as_it_is() {
  const std::filesystem::path folder = temporary_cache_folder();
  return named_cache_folder().empty() && is_missing(folder) ? folder : cache_folder();
}

std::string ignored_cache_home() {
  const char* value = std::getenv("XDG_CACHE_HOME");
  return value == nullptr || std::filesystem::path(value).is_absolute() ? "" : value;
}

std::string why_no_cache() {
  const std::filesystem::path folder = temporary_cache_folder();
  if (!named_cache_folder().empty() || is_missing(folder) || is_ours_alone(folder)) return "";
  return fmt::format("'{}' is no folder that this user alone can write", folder.string());
}

bool names_threads() { return std::getenv("OMP_NUM_THREADS") != nullptr; }

}  // namespace stof
