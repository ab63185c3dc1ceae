// SPDX-License-Identifier: Apache-2.0
#include "src/base/file_status.h"

#include <algorithm>
#include <climits>

#include "src/base/error.h"

namespace stof {
namespace {

namespace fs = std::filesystem;

fs::file_status status_of(const fs::path& path) {
  std::error_code unknown;
  const fs::file_status status = fs::status(path, unknown);
  if (status.type() == fs::file_type::none)  // anything but found and not found
    fail(ErrorKind::bad_file, "cannot read {}: {}", path.string(), unknown.message());
  return status;
}

}  // namespace

bool is_there(const fs::path& path) { return fs::exists(status_of(path)); }
bool is_folder(const fs::path& path) { return fs::is_directory(status_of(path)); }

bool is_entry_name(std::string_view name) {
  static_assert(NAME_MAX == 255, "kEntryName says so");
  const auto forbidden = [](char c) { return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  return !name.empty() && name.size() <= NAME_MAX && name != "." && name != ".." &&
         std::none_of(name.begin(), name.end(), forbidden);
}

}  // namespace stof
