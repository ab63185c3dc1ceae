// SPDX-License-Identifier: Apache-2.0
#include "src/base/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "src/base/error.h"
#include "src/base/whole_file.h"

namespace stof {

AppendFile::AppendFile(const std::filesystem::path& path) : path_(path) {
  // A pipe would wait for a reader, or swallow every line; what a link points to is somebody else's.
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (file_ < 0)
    fail(ErrorKind::bad_file, "cannot write '{}': {}", path.string(),
         errno == ELOOP ? "it is a symbolic link; accepted: a regular file" : std::strerror(errno));
  struct stat status {};
  if (fstat(file_, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(file_);
    fail(ErrorKind::bad_file, "cannot write '{}': it is no regular file; accepted: a regular file", path.string());
  }
  // What a process that died has left of a line gets an end, so that the next one is whole.
  char last = '\n';
  const off_t size = lseek(file_, 0, SEEK_END);
  if (size <= 0 || pread(file_, &last, 1, size - 1) != 1 || last == '\n') return;
  try {
    add("");
  } catch (const Error&) {
    close(file_);
    throw;
  }
}

AppendFile::~AppendFile() { close(file_); }

void AppendFile::add(std::string_view line) {
  std::string whole(line);
  whole += '\n';
  ssize_t written = -1;
  do written = write(file_, whole.data(), whole.size());
  while (written < 0 && errno == EINTR);
  if (written != static_cast<ssize_t>(whole.size()))
    fail(ErrorKind::device, "cannot write '{}': {}", path_.string(), std::strerror(written < 0 ? errno : ENOSPC));
}

std::vector<std::string> whole_lines(const std::filesystem::path& path) {
  const std::string text = read_whole_file(path).value_or("");
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace stof
