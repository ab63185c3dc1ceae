// SPDX-License-Identifier: Apache-2.0
#include "cli/text_lines.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

#include "src/base/error.h"
#include "src/base/memory.h"
#include "src/base/open_file.h"
#include "src/model/file_map.h"
#include "src/model/unicode.h"

namespace stof::cli {
namespace {

std::vector<std::string> lines_of(std::string_view text, const std::string& name) {
  // A line without characters is an object, too.
  const auto count = std::count(text.begin(), text.end(), '\n') + 1;
  check_memory(fmt::format("{}: {} lines", name, count),
               static_cast<double>(text.size()) + static_cast<double>(count) * sizeof(std::string));
  std::vector<std::string> lines;
  lines.reserve(static_cast<std::size_t>(count));
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (const std::size_t invalid = unicode::find_invalid(line); invalid != std::string_view::npos)
      fail(ErrorKind::bad_file, "{}: line {} is not UTF-8 at its byte {}: 0x{:02X}", name, lines.size() + 1, invalid,
           static_cast<unsigned char>(line[invalid]));
    lines.emplace_back(line);
  }
  return lines;
}

// It may have no end.
std::string read_stream(std::FILE* stream, const std::string& name) {
  std::string text;
  std::array<char, 1 << 16> piece;
  while (const std::size_t size = std::fread(piece.data(), 1, piece.size(), stream)) {
    if (text.size() + size > text.capacity()) check_memory(name, 3.0 * static_cast<double>(text.size()));
    text.append(piece.data(), size);
  }
  if (std::ferror(stream) != 0) fail(ErrorKind::bad_file, "cannot read {}: {}", name, std::strerror(errno));
  return text;
}

// Also what a shell has in place of a file for `<(command)`. Waits for who writes.
std::string read_pipe(const std::string& name) {
  struct Close {
    void operator()(std::FILE* stream) const { std::fclose(stream); }
  };
  const int descriptor = open(name.c_str(), O_RDONLY | O_CLOEXEC);
  const std::unique_ptr<std::FILE, Close> stream(descriptor < 0 ? nullptr : fdopen(descriptor, "rb"));
  if (!stream) fail(ErrorKind::bad_file, "cannot read {}: {}", name, std::strerror(errno));
  return read_stream(stream.get(), name);
}

}  // namespace

std::vector<std::string> read_lines(const std::filesystem::path& file) {
  return lines_of(FileMap(file).text(), file.string());
}

std::vector<std::string> read_input(const std::string& input) {
  if (input == "-") return lines_of(read_stream(stdin, "stdin"), "stdin");
  struct stat status {};
  if (stat(input.c_str(), &status) != 0) return read_lines(input);  // which says why not
  if (S_ISFIFO(status.st_mode)) return lines_of(read_pipe(input), input);
  if (!S_ISREG(status.st_mode))
    fail(ErrorKind::bad_file, "cannot read {}: {}; accepted: a regular file, a pipe, or - for stdin", input,
         kind_of_file(status.st_mode));
  return read_lines(input);
}

std::string input_name(const std::string& input) { return input == "-" ? "stdin" : input; }

}  // namespace stof::cli
