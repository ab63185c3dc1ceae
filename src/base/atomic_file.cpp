// SPDX-License-Identifier: Apache-2.0
#include "src/base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "src/base/error.h"

namespace stof {
namespace fs = std::filesystem;
namespace {

fs::path name_aside(const fs::path& target) {
  static std::atomic<int> serial{0};
  fs::path aside = target;
  aside += fmt::format(".{}-{}.part", getpid(), serial++);
  return aside;
}

// Where writing to the path ends: the target of a link, or of a link to a link, whether it exists or not. A ring of
// links stays a link.
fs::path followed(fs::path path) {
  constexpr int kMostLinks = 40;  // as Linux itself
  std::error_code ignored;
  for (int links = 0; links < kMostLinks && fs::is_symlink(path, ignored); ++links)
    path = path.parent_path() / fs::read_symlink(path, ignored);
  return path;
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& path) : path_(path), final_(followed(path)) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    fail(ErrorKind::bad_file, "cannot write '{}': it is a directory", path_.string());
  const bool direct = fs::exists(path, ignored) && !fs::is_regular_file(path, ignored);
  if (fs::is_symlink(final_, ignored))
    fail(ErrorKind::bad_file, "cannot write '{}': {}", path_.string(), std::strerror(ELOOP));
  if (!direct) aside_ = name_aside(final_);
  file_ = direct ? open(path.c_str(), O_WRONLY | O_CLOEXEC)
                 : open(aside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0) fail(ErrorKind::bad_file, "cannot write '{}': {}", path_.string(), std::strerror(errno));
}

AtomicFile::~AtomicFile() {
  if (file_ >= 0) close(file_);
  if (!aside_.empty()) unlink(aside_.c_str());
}

void AtomicFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail_writing(written < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  if (!aside_.empty() && fsync(file_) != 0) fail_writing(errno);
  if (close(std::exchange(file_, -1)) != 0) fail_writing(errno);
  if (aside_.empty()) return;
  if (rename(aside_.c_str(), final_.c_str()) != 0) fail_writing(errno);
  aside_.clear();
}

void AtomicFile::fail_writing(int error) const {
  fail(ErrorKind::device, "cannot write '{}': {}", path_.string(), std::strerror(error));
}

}  // namespace stof
