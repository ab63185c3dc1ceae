// SPDX-License-Identifier: Apache-2.0
// A file that appears whole or not at all: written without a name where the file system can do that, else aside in the
// target's folder; synced, named, renamed. Killed at any moment, a process leaves nothing half-written under any name
// that it was asked for, and nothing at all half-written where files may go without a name.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace stof {

// What a name that is taken stands for. `followed`: what its user means by it, so that links are followed and what is
// no regular file (a pipe, /dev/null) is written directly. `replaced`: nothing but itself, in a folder where whoever
// may write may put a link to another file, or a pipe that nobody reads: the file takes the place of both.
enum class TakenName : std::uint8_t { followed, replaced };

// Throws bad_file when the file cannot be created, device when writing fails (disk full, quota, I/O error).
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path, TakenName taken = TakenName::followed);
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
  bool named_ = false;           // aside_ is on disk
  int file_ = -1;
};

// What writers that were killed have left in a folder, a day ago or before: nobody writes for so long. No failure is an
// error: another process may be at it.
void remove_abandoned_parts(const std::filesystem::path& folder);

}  // namespace stof
