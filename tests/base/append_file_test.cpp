// SPDX-License-Identifier: Apache-2.0
// What is added to a file of lines, and what is no such file.
#include "src/base/append_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/expect_error.h"
#include "tests/room_for_bytes.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

namespace fs = std::filesystem;

TEST(AppendFile, OnlyARegularFileIsWritten) {
  const TemporaryFolder folder;
  const fs::path victim = folder / "victim", link = folder / "link", pipe = folder / "pipe";
  write_bytes(victim, "mine");
  fs::create_symlink(victim, link);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0666), 0);
  EXPECT_ERROR(AppendFile{link}, ErrorKind::bad_file,
               "cannot write '" + link.string() + "': it is a symbolic link; accepted: a regular file");
  EXPECT_ERROR(AppendFile{pipe}, ErrorKind::bad_file,
               "cannot write '" + pipe.string() + "': it is no regular file; accepted: a regular file");
  EXPECT_ERROR(AppendFile{"/dev/null"}, ErrorKind::bad_file,
               "cannot write '/dev/null': it is no regular file; accepted: a regular file");
  EXPECT_EQ(read_bytes(victim), "mine");
}

TEST(AppendFile, AFullDiskIsSaid) {
  const TemporaryFolder folder;
  const fs::path path = folder / "log";
  AppendFile log(path);
  const RoomForBytes few(3);
  EXPECT_ERROR(log.add("line"), ErrorKind::device, "cannot write '" + path.string() + "': No space left on device");
}

// Each time a line is to get the end that it lacks.
TEST(AppendFile, AFileThatCannotBeMendedIsClosed) {
  const TemporaryFolder folder;
  const fs::path path = folder / "log";
  write_bytes(path, "half a line");
  const auto handles = [] { return std::distance(fs::directory_iterator("/proc/self/fd"), {}); };
  const auto before = handles();
  {
    const RoomForBytes none(11);
    EXPECT_THROW(AppendFile{path}, Error);
  }
  EXPECT_EQ(handles(), before);
}

}  // namespace
}  // namespace stof
