// SPDX-License-Identifier: Apache-2.0
// The bytes of one fuzz input as files in memory, so that readers that take paths are fuzzed without touching a disk.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace stof::fuzz {

// What must never happen: the fuzzer reports it with the input.
inline void require(bool holds) {
  if (!holds) __builtin_trap();
}

class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) { require(descriptor_ >= 0); }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }
  void write(std::string_view bytes) const {
    require(ftruncate(descriptor_, 0) == 0);
    require(pwrite(descriptor_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }

 private:
  int descriptor_;
};

// A folder for links to memory files. Removed when the process ends by itself.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "stof-fuzz-XXXXXX").string();
    require(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void link(const std::filesystem::path& name, const MemoryFile& file) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::filesystem::create_symlink(file.path(), path_ / name);
  }
  void unlink(const std::filesystem::path& name) const { std::filesystem::remove(path_ / name); }

 private:
  std::filesystem::path path_;
};

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Inputs of several parts: takes the next part off `text`, up to a line of two percent signs.
inline std::string_view next_part(std::string_view& text) {
  constexpr std::string_view kBetween = "\n%%\n";
  const std::size_t end = text.find(kBetween);
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + kBetween.size());
  return part;
}

}  // namespace stof::fuzz
