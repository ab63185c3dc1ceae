// SPDX-License-Identifier: Apache-2.0
#include "cli/text_lines.h"

#include <algorithm>
#include <string_view>

#include "src/base/error.h"
#include "src/base/memory.h"
#include "src/model/file_map.h"
#include "src/model/unicode.h"

namespace stof::cli {

std::vector<std::string> read_lines(const std::filesystem::path& file) {
  const FileMap map(file);
  // A line without characters is an object, too.
  const auto count = std::count(map.text().begin(), map.text().end(), '\n') + 1;
  check_memory(fmt::format("{}: {} lines", file.string(), count),
               static_cast<double>(map.text().size()) + static_cast<double>(count) * sizeof(std::string));
  std::vector<std::string> lines;
  lines.reserve(static_cast<std::size_t>(count));
  for (std::string_view rest = map.text(); !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (const std::size_t invalid = unicode::find_invalid(line); invalid != std::string_view::npos)
      fail(ErrorKind::bad_file, "{}: line {} is not UTF-8 at its byte {}: 0x{:02X}", file.string(), lines.size() + 1,
           invalid, static_cast<unsigned char>(line[invalid]));
    lines.emplace_back(line);
  }
  return lines;
}

}  // namespace stof::cli
