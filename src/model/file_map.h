// SPDX-License-Identifier: Apache-2.0
// A whole file as read-only memory. Shrinking the file while it is mapped is a bus error, as with any mapping.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace stof {

class FileMap {
 public:
  // Throws bad_file when the file is missing, not a regular file, or cannot be read.
  explicit FileMap(const std::filesystem::path& file);
  ~FileMap();
  FileMap(const FileMap&) = delete;
  FileMap& operator=(const FileMap&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace stof
