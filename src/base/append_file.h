// SPDX-License-Identifier: Apache-2.0
// A file of lines that several processes add to. A line is written by one call to the system, at the end: it is there
// as a whole, but for the last one where a process or the machine died, and readers skip such a one.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace stof {

class AppendFile {
 public:
  // Throws bad_file when it cannot be opened for writing, or is no regular file but a link, a pipe or a device.
  explicit AppendFile(const std::filesystem::path& path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // Without its end. Throws device when the disk is full.
  void add(std::string_view line);

 private:
  std::filesystem::path path_;
  int file_ = -1;
};

// Without a last line that has no end; nothing where there is no file.
std::vector<std::string> whole_lines(const std::filesystem::path& path);

}  // namespace stof
