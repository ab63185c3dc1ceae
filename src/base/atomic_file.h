// SPDX-License-Identifier: Apache-2.0
// A file that appears whole or not at all: written aside in the target's folder, synced, renamed.
#pragma once
#include <filesystem>
#include <span>
#include <string_view>

namespace stof {

// Throws bad_file when the file cannot be created, device when writing fails (disk full, quota, I/O error).
// A target that exists and is no regular file (a pipe, /dev/null) is written directly.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();  // without commit() nothing is left behind
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void append(std::span<const std::byte> bytes);
  void append(std::string_view text) { append(std::as_bytes(std::span(text))); }
  void commit();

 private:
  [[noreturn]] void fail_writing(int error) const;

  std::filesystem::path path_;   // as the caller named it
  std::filesystem::path final_;  // with symbolic links followed
  std::filesystem::path aside_;  // empty when the target is written directly
  int file_ = -1;
};

}  // namespace stof
