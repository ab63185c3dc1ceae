// SPDX-License-Identifier: Apache-2.0
#include "src/base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <random>

#include "src/base/error.h"

namespace stof {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPart = ".part";

// Random, for processes of different containers may share the folder and have the same number.
fs::path name_aside(const fs::path& target) {
  std::random_device random;
  fs::path aside = target;
  aside += fmt::format(".{:08x}{:08x}{}", random(), random(), kPart);
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

// -1 where the file system cannot do that, or nothing could name the file later.
int open_unnamed(const fs::path& aside, mode_t mode) {
  if (access("/proc/self/fd", X_OK) != 0) return -1;
  const fs::path folder = aside.parent_path();
  return open(folder.empty() ? "." : folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, mode);
}

// Who may read a file that is written anew may read what comes in its place, and nobody else: a group that the file
// cannot have loses what it might.
void take_mode(int file, const struct stat& before) {
  const bool same_group = fchown(file, static_cast<uid_t>(-1), before.st_gid) == 0;
  (void)fchmod(file, before.st_mode & (same_group ? 0777U : 0707U));  // else it stays its owner's
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& path, TakenName taken)
    : path_(path), final_(taken == TakenName::followed ? followed(path) : path) {
  std::error_code ignored;
  const bool follows = taken == TakenName::followed;
  if (fs::is_directory(follows ? fs::status(path, ignored) : fs::symlink_status(path, ignored)))
    fail(ErrorKind::bad_file, "cannot write '{}': it is a directory", path_.string());
  const bool direct = follows && fs::exists(path, ignored) && !fs::is_regular_file(path, ignored);
  if (follows && fs::is_symlink(final_, ignored))
    fail(ErrorKind::bad_file, "cannot write '{}': {}", path_.string(), std::strerror(ELOOP));
  struct stat before {};
  const bool replaces = !direct && follows && stat(final_.c_str(), &before) == 0 && S_ISREG(before.st_mode);
  const mode_t mode = replaces ? 0600 : 0666;
  if (!direct) aside_ = name_aside(final_);
  if (direct) file_ = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  else if (aside_.filename().string().size() <= NAME_MAX) file_ = open_unnamed(aside_, mode);
  if (file_ < 0 && !direct) {
    file_ = open(aside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    named_ = file_ >= 0;
  }
  if (file_ < 0) fail(ErrorKind::bad_file, "cannot write '{}': {}", path_.string(), std::strerror(errno));
  if (replaces) take_mode(file_, before);
}

AtomicFile::~AtomicFile() {
  if (file_ >= 0) close(file_);
  if (named_) unlink(aside_.c_str());
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
  if (!aside_.empty() && !named_) {
    const std::string unnamed = fmt::format("/proc/self/fd/{}", file_);
    if (linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, aside_.c_str(), AT_SYMLINK_FOLLOW) != 0) fail_writing(errno);
    named_ = true;
  }
  if (close(std::exchange(file_, -1)) != 0) fail_writing(errno);
  if (aside_.empty()) return;
  if (rename(aside_.c_str(), final_.c_str()) != 0) fail_writing(errno);
  named_ = false;
}

void remove_abandoned_parts(const fs::path& folder) {
  const auto yesterday = fs::file_time_type::clock::now() - std::chrono::hours(24);
  std::error_code gone;
  for (fs::directory_iterator it(folder, gone), end; !gone && it != end; it.increment(gone)) {
    std::error_code failed;
    if (it->path().extension() != kPart || !it->is_regular_file(failed)) continue;
    const auto written = it->last_write_time(failed);
    if (!failed && written < yesterday) fs::remove(it->path(), failed);
  }
}

void AtomicFile::fail_writing(int error) const {
  fail(ErrorKind::device, "cannot write '{}': {}", path_.string(), std::strerror(error));
}

}  // namespace stof
