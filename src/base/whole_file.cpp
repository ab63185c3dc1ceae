// SPDX-License-Identifier: Apache-2.0
#include "src/base/whole_file.h"

#include <fstream>
#include <iterator>

namespace stof {

std::optional<std::string> read_whole_file(const std::filesystem::path& path, std::uintmax_t most) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) return std::nullopt;
  if (std::filesystem::file_size(path, unknown) > most || unknown) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace stof
